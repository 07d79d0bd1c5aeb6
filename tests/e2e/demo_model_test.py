"""The demo model's documented answers, through router, prefill and decode worker, are exact."""

import json
import os
import unittest

from harness import DEMO, Cluster, inference_pb2

with open(os.path.join(DEMO, "questions.json"), encoding="utf-8") as file:
    QUESTIONS = json.load(file)


class DemoModel(unittest.TestCase):
    def check(self, *flags):
        with Cluster(model=DEMO, router_flags=["--disaggregation=always"], worker_flags=flags) as cluster:
            for question, answer in QUESTIONS.items():
                with self.subTest(question=question):
                    response = cluster.generate([("user", question)])  # greedy by the model's generation_config.json
                    self.assertEqual(response.choices[0].text, answer)
                    self.assertEqual(response.choices[0].finish_reason, inference_pb2.FINISH_REASON_STOP)
                    self.assertGreater(response.reports[0].route.kv_bytes, 0)
            first, second = list(QUESTIONS)[:2]
            response = cluster.generate([("user", first), ("assistant", QUESTIONS[first]), ("user", second)])
            self.assertEqual(response.choices[0].text, QUESTIONS[second], "as a second turn")
            cluster.assert_idle()

    def test_twenty_documented_answers(self):
        self.assertGreaterEqual(len(QUESTIONS), 20)
        self.check()

    def test_the_same_with_another_weights_and_kv_format(self):
        self.check("--weights", "f32", "--kv_dtype", "f32")

    def test_the_same_with_int8_kv(self):
        self.check("--kv_dtype", "int8")


if __name__ == "__main__":
    unittest.main()
