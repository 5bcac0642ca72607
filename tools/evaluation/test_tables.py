"""python3 -m unittest discover -s tools/evaluation"""

import json
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tables

PRINTED = """\
models/needle (hash), F32 on cpu; task seed 7, attention seed 0; chat template of the checkpoint
95 % intervals by bootstrap over prompts within tasks (10000 resamples, seed 1)

access_few, 4096 tokens, 50 prompts

| attention               | full score  | score %  | interval       | of dense %  | interval       | KV access %  | bytes %  | null  |
|---                      |---          |---       |---             |---          |---             |---           |---       |---    |
| dense                   | 50 of 50    | 100.0    | 99.0 to 100.0  | 100.0       | 98.0 to 100.0  | 100.0        | 100.0    | 0     |
| santapp (kmeans, S 128) | 48 of 50    | 96.0     | 90.0 to 100.0  | 96.0        | 91.0 to 100.0  | 21.9         | 21.9     | 0     |

| difference                      | points  | interval       |
|---                              |---      |---             |
| dense − santapp (kmeans, S 128) | 4.0     | 0.0 to 10.0    |

vt, 4096 tokens, with answer prefix, 1 prompt

| attention | full score  |
|---        |---          |
| dense     | 0 of 1      |
"""


class Tables(unittest.TestCase):
    def test_parse(self):
        few, vt = tables.parse(PRINTED)
        self.assertEqual((few["tasks"], few["tokens"], few["prompts"], few["way"]), ("access_few", "4096", "50", None))
        self.assertEqual((vt["tasks"], vt["prompts"], vt["way"], len(vt["lines"])), ("vt", "1", "with", 1))
        line = few["lines"][1]
        self.assertEqual((line["full score"], line["score % interval"], line["of dense % interval"]), ("48 of 50", "90.0 to 100.0", "91.0 to 100.0"))
        self.assertEqual(few["pairs"], [{"difference": "dense − santapp (kmeans, S 128)", "points": "4.0", "points interval": "0.0 to 10.0"}])

    def test_refused(self):
        with unittest.mock.patch.dict(os.environ, {"GENERATE": "false"}), self.assertRaises(SystemExit) as end:
            tables.main(["answers", "none.jsonl"])
        self.assertEqual(end.exception.code, 1)

    def test_split(self):
        for label, want in {
            "dense": ("dense", ""),
            "santa (S 128)": ("santa", "128"),
            "centroid (B 16, S 1024)": ("centroid (B 16)", "1024"),
            "santapp (contiguous whole rows, S 512)": ("santapp (contiguous whole rows)", "512"),
        }.items():
            self.assertEqual(tables.split(label), want)

    def test_z(self):
        # Means 0.2 and 0.6 of five, variances of the means 0.04 and 0.06.
        self.assertAlmostEqual(tables.z([0, 0, 0, 0, 1], [1, 1, 1, 0, 0]), 0.4 / 0.1**0.5)
        self.assertEqual(tables.z([1, 1], [1, 1]), 0)
        self.assertEqual(tables.z([1, 1], [0, 0]), float("inf"))

    def test_between(self):
        def results(folder, name, scores):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write('{"evaluation":1}\n')
                for i, score in enumerate(scores):
                    answer = {"id": f"p{i}", "attention": "santa (S 8)", "repeat": 0, "score": score, "access_percent": 50 + i, "text": str(score)}
                    f.write(json.dumps(answer) + "\n")
            return path

        with tempfile.TemporaryDirectory() as folder:
            a, b = results(folder, "a", [0, 1, 1]), results(folder, "b", [1, 1])
            rows = tables.between([a], [b]).splitlines()
        self.assertEqual(rows[-1], "| santa | 8 | 2 | 1 | 2 | +1.00 | 50.50 | 50.50 | +0.00 | 1 | 1 |")


if __name__ == "__main__":
    unittest.main()
