"""When two engines say the same: greedy tokens part only where the best two logits nearly tie."""

# Nats; closer than what bf16 rounds away.
TIE = 0.05


def compare(test, expected, actual, prompt):
    """Of two choices of one greedy request with `logprobs` of 2 or more. Returns how many tokens could be compared: after
    the first that parts the two read different texts."""
    for i, (token, other) in enumerate(zip(expected.token_ids, actual.token_ids)):
        if token != other:
            best, second = expected.logprobs[i].top[:2]
            test.assertLess(best.logprob - second.logprob, TIE, f"{prompt}, token {i}")
            test.assertEqual(other, second.token_id)
            return i
        test.assertAlmostEqual(expected.logprobs[i].logprob, actual.logprobs[i].logprob, delta=0.1)
    return len(expected.token_ids)
