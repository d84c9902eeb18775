#!/usr/bin/env python3
"""tools/check_npu_schemas.py reads the schemas of a libtorch_npu.so as the library registers them.

    schemas_test.py PROGRAM_list_schemas LIBTORCH_NPU_SO
"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("check_npu_schemas", ROOT / "tools/check_npu_schemas.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([sys.argv[1]], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        cls.lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
        cls.library = pathlib.Path(sys.argv[2]).read_bytes()

    def texts(self, *kinds):
        """(namespace, operator) -> texts of lines "KIND namespace::operator(…) -> …"."""
        found = {}
        for kind, text in self.lines:
            match = re.fullmatch(r"(\w+)::([\w.]+)(\(.*\) -> .*)", text)
            if kind in kinds and match:
                found.setdefault((match[1], match[2]), []).append(match[3])
        return found

    def test_reads_exactly_what_is_registered(self):
        read, live = tool.registered(self.library), self.texts("live")
        npu = {name: texts for (space, name), texts in live.items() if space == "npu"}
        self.assertGreater(len(npu), 300)
        for name, (text,) in npu.items():
            with self.subTest(name):
                self.assertEqual(len(read.get(name, [])), 1, f"{name}: {read.get(name)}")
                self.assertEqual(tool.arguments(read[name][0]), tool.arguments(text), name)
        # What else is read belongs to another namespace.
        others = {name for space, name in live if space != "npu"}
        self.assertEqual(set(read) - set(npu) - others, set())

    def test_the_sources_say_what_the_binary_calls(self):
        binary = {name: texts for (_, name), texts in self.texts("calls", "other").items()}
        self.assertGreater(len(binary), 5)
        self.assertEqual(tool.called(), binary)

    def changed(self, old, new):
        self.assertEqual(len(old), len(new))
        self.assertEqual(self.library.count(old), 1)
        return tool.differences(self.library.replace(old, new), "9.8.7")[1]

    def test_the_installed_library_has_no_difference(self):
        self.assertEqual(tool.differences(self.library, "here")[1], [])

    def test_a_difference_names_operator_argument_and_version(self):
        self.assertEqual(self.changed(b"\0npu_swiglu(Tensor input, int dim=-1) -> Tensor\0",
                                      b"\0npu_swiglu(Tensor input, int dim=-2) -> Tensor\0"),
                         ["npu::npu_swiglu: argument 2 is 'int dim=-2' in torch_npu 9.8.7, titan calls it with 'int dim=-1'"])
        self.assertEqual(self.changed(b"\0npu_swiglu(Tensor input, int dim=-1) -> Tensor\0",
                                      b"\0npu_swiglU(Tensor input, int dim=-1) -> Tensor\0"),
                         ["npu::npu_swiglu: torch_npu 9.8.7 does not have this operator"])
        (line,) = self.changed(b"npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)\0",
                               b"npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-07) -> (Tensor, Tensor)\0")
        self.assertIn("argument 3 is 'float epsilon=1e-07'", line)

    def test_a_library_without_readable_schemas_is_an_error(self):
        with self.assertRaises(SystemExit) as refused:
            tool.differences(b"\0nothing here\0", "9.8.7")
        self.assertIn("9.8.7", str(refused.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
