"""Values of reports and tables."""

from leakbench.results.number import Attacker, Configuration


def test_a_changed_copy_works_out_anew_what_was_kept():
    one = Configuration(task="digits", defense="fedgn", params={})
    kept = one.key
    other = one.model_copy(update={"task": "digits (rounds=3)"})
    assert other.key != kept
    assert other.key == Configuration(task="digits (rounds=3)", defense="fedgn", params={}).key
    weak = Attacker(name="unmix", rung="method")
    assert weak.key == ("unmix", "{}")
    assert weak.model_copy(update={"params": {"k": 1}}).key == ("unmix", '{"k":1}')
    assert one.model_copy() == one
