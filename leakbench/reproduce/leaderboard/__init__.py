"""The leaderboard: of each method on each task the strongest attack that the tables know."""
