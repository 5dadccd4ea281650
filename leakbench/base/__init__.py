"""Values, files, named draws, jobs: knows nothing of federated learning."""
