"""python3 -m unittest discover -s tools/datasets"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import convert
import essays
import helmet
import longbench
import qa


def fixture(name):
    return os.path.join(HERE, "fixtures", name)


def count(text):
    return len(text.split())


class Rows(unittest.TestCase):
    def check(self, rows, scorer):
        rows = list(rows)
        self.assertEqual(len({r["id"] for r in rows}), len(rows))
        for r in rows:
            self.assertEqual(r["scorer"], scorer)
            self.assertTrue(r["input"] and all(r["outputs"]) and r["max_tokens"] > 0)
        return rows

    def test_essays(self):
        rows = self.check(essays.convert(fixture("essays.json"), list(essays.TASKS), count, 420, 3, 1), "string_match_all")
        self.assertEqual(len(rows), 15)
        for r in rows:
            self.assertLessEqual(count(r["input"] + r["answer_prefix"]) + essays.ANSWER, 420)
            kind, keys, values, asked = essays.TASKS[r["task"]]
            self.assertEqual(len(r["outputs"]), values * asked)
            self.assertEqual(r["input"].count(f"One of the special magic {kind}s for "), keys * values)
            for output in r["outputs"]:
                self.assertEqual(r["input"].count(f" is: {output}."), 1)
        again = list(essays.convert(fixture("essays.json"), list(essays.TASKS), count, 420, 3, 1))
        self.assertEqual(rows, again)
        self.assertIn("What is the special magic uuid for ", [r for r in rows if r["task"] == "niah_single_3"][0]["input"])

    def test_essay_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "there is no text"):
                essays.read(folder)
            with open(os.path.join(folder, "a.txt"), "w", encoding="utf-8") as f:
                f.write("One text.")
            self.assertEqual(essays.read(folder), ["One", "text."])

    def test_squad(self):
        rows = self.check(qa.convert("qa_1", fixture("squad.json"), count, 130, 9, 1), "string_match_part")
        self.assertEqual([r["outputs"] for r in rows], [["1871", "in 1871"], ["on the northern pier"]])
        for r in rows:
            self.assertLessEqual(count(r["input"] + r["answer_prefix"]) + qa.ANSWER, 130)
            self.assertIn(r["outputs"][0], r["input"])
            self.assertIn("Document 1:\n", r["input"])
            self.assertEqual(r["answer_prefix"], " Answer:")

    def test_hotpotqa(self):
        rows = self.check(qa.convert("qa_2", fixture("hotpotqa.json"), count, 160, 9, 1), "string_match_part")
        self.assertEqual(len(rows), 2)
        self.assertIn("\nOla\nOla painted in Brod. She had no teacher.", rows[0]["input"])
        with self.assertRaisesRegex(ValueError, "ask for longer prompts"):
            list(qa.convert("qa_2", fixture("hotpotqa.json"), count, 50, 9, 1))

    def test_helmet(self):
        rows = self.check(helmet.convert("nq", fixture("helmet.jsonl"), fixture("helmet.jsonl"), 2, 0), "substring_exact_match")
        self.assertEqual([r["outputs"] for r in rows], [["two brothers"], ["rye", "Secale cereale"]])
        self.assertTrue(rows[0]["input"].endswith("Document (Title: Bread): Rye keeps.\n\nQuestion: who built the harbour of melin"))
        self.assertIn("Question: what keeps longer than wheat\nAnswer: rye\n\nDocument (Title: Melin)", rows[0]["input"])
        self.assertNotIn("two brothers\n\nQuestion: who built", rows[0]["input"])
        self.assertEqual((rows[0]["answer_prefix"], rows[0]["stop"]), ("\nAnswer:", ["\n"]))

    def test_popqa(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "popqa.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                for views in (999, 1000, 1, 50000):
                    item = {"id": views, "question": f"which has {views}", "answers": ["x"], "s_pop": views, "ctxs": [{"title": "t", "text": "x"}]}
                    f.write(json.dumps(item) + "\n")
            rows = self.check(helmet.convert("popqa", path, path, 2, 0), "substring_exact_match")
        self.assertEqual([r["input"].rsplit("which has ")[-1] for r in rows], ["999", "1"])
        self.assertEqual([r["input"].count("Question: ") for r in rows], [2, 2])

    def test_longbench(self):
        (r,) = self.check(longbench.convert(fixture("longbench.json"), 0), "choice")
        self.assertEqual((r["outputs"], r["id"]), (["C"], "longbench_v2-66f3"))
        self.assertIn("<text>\nThe paper was signed by Cleo {with care}.\n</text>", r["input"])
        self.assertIn("question: Who signed?\nChoices:\n(A) Ann\n(B) Ben\n(C) Cleo\n(D) Dan\n\nKeep", r["input"])

    def test_command(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            convert.main(["longbench-v2", fixture("longbench.json")])
        self.assertEqual(json.loads(out.getvalue())["task"], "longbench_v2")
        for arguments in (["longbench-v2", fixture("squad.json")], ["squad", "none.json", "--model", "m", "--length", "9"],
                          ["essays", fixture("essays.json"), "--tasks", "vt", "--model", "m", "--length", "9"]):
            with self.assertRaises(SystemExit) as error:
                convert.main(arguments)
            self.assertIn("convert.py: ", str(error.exception))


if __name__ == "__main__":
    unittest.main()
