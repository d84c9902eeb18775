"""What the binary and its device modules are linked to, and how a module that cannot be used says so.

    linkage_test.py TITAN_BINARY

`titan` itself must start on a machine that has no vendor library. Its own needs are checked name by name, and so is
everything those need in turn, with one exception that is not ours: libtorch_cpu.so of a CUDA wheel lists libcudart and
libcupti itself. They are allowed where libtorch_cpu alone asks for them, and nowhere else.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

VENDOR = re.compile(r"lib(cuda|cudart|cudnn|cublas|cufft|cufile|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvshmem|nvToolsExt|"
                    r"nvJitLink|torch_cuda|c10_cuda|torch_npu|ascend|acl|opapi|hccl|python|torch_python|titan_)")
TORCH_CPU_OWN = re.compile(r"lib(cudart|cupti)\.so")
NPU_PYTHON = "libtitan_npu_python.so"  # a second way to a device, the only part of titan with an interpreter
TITAN = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None


def needed(path):
    text = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^\s+NEEDED\s+(\S+)", text, re.MULTILINE)


def resolved(path):
    """Library name -> file, as the loader would find them."""
    text = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return {name: target for name, target in re.findall(r"^\s*(\S+) => (/\S+)", text, re.MULTILINE)}


def dynamic_symbols(path, undefined):
    flag = "--undefined-only" if undefined else "--defined-only"
    text = subprocess.run(["nm", "-D", flag, path], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines() if line.strip()}


class Linkage(unittest.TestCase):
    def test_the_binary_itself_needs_no_vendor_library(self):
        names = needed(TITAN)
        self.assertIn("libtorch_cpu.so", names)
        self.assertEqual([name for name in names if VENDOR.match(name)], [])

    def test_python_is_needed_by_one_module_only(self):
        for file in (TITAN, *TITAN.parent.glob("libtitan_*.so")):
            pythons = [name for name in needed(file) if re.match(r"libpython", name)]
            self.assertEqual(bool(pythons), file.name == NPU_PYTHON, f"{file} needs {pythons}")

    def test_nothing_below_it_does_but_libtorch_cpu_of_a_cuda_wheel(self):
        files = resolved(TITAN)
        seen, open_list, problems = set(), [("titan", name) for name in needed(TITAN)], []
        while open_list:
            by, name = open_list.pop()
            own_of_torch = by == "libtorch_cpu.so" and TORCH_CPU_OWN.match(name)
            if VENDOR.match(name) and not own_of_torch:
                problems.append(f"{by} needs {name}")
            if name in seen or name not in files or own_of_torch:
                continue
            seen.add(name)
            open_list += [(name, further) for further in needed(files[name])]
        self.assertEqual(problems, [])
        self.assertIn("libc10.so", seen)

    def test_no_simdjson_beside_the_one_inside_libparquet(self):
        # Two versions in one process share symbols and crash; titan reads JSON with data/json_reader.h.
        self.assertFalse([name for name in needed(TITAN) if name.startswith("libsimdjson")])

    def test_modules_take_every_symbol_of_the_core_from_the_binary(self):
        exported = dynamic_symbols(TITAN, undefined=False)
        for module in sorted([*TITAN.parent.glob("libtitan_*.so"), *TITAN.parent.glob("python/libtitan_*.so")]):
            own = dynamic_symbols(module, undefined=False)
            missing = {s for s in dynamic_symbols(module, undefined=True) if s.startswith("_ZN5titan")} - exported
            self.assertEqual(missing, set(), module.name)
            twice = {s for s in own & exported if s.startswith("_ZN5titan") and "EnvironmentError" not in s
                     and "5ErrorC" not in s and "5ErrorD" not in s}
            self.assertEqual(twice, set(), f"{module.name} has its own copy of core functions")


class Messages(unittest.TestCase):
    def run_titan(self, *words):
        return subprocess.run([TITAN, *words], capture_output=True, text=True, timeout=120)

    def test_version_names_the_modules_beside_the_binary(self):
        line = next(l for l in self.run_titan("--version").stdout.splitlines() if l.startswith("devices built in:"))
        modules = sorted(p.name[len("libtitan_"):-3] for p in TITAN.parent.glob("libtitan_*.so") if p.name != NPU_PYTHON)
        self.assertEqual(sorted(line.split(":")[1].split()), sorted(["cpu", *modules]))

    def test_doctor_gives_the_reason_and_the_exit_code_of_a_missing_device(self):
        for device in ("cuda", "npu"):
            run = self.run_titan("doctor", "--device", device)
            section = re.search(rf"^{device}\n((?:  .*\n)+)", run.stdout, re.MULTILINE)
            self.assertIsNotNone(section, run.stdout + run.stderr)
            if run.returncode == 0:
                self.assertIn("health         good", section[1])
                continue
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertRegex(section[1], r"not part of this build|none can be used: \S.*\n")
            self.assertRegex(run.stderr, rf"^titan: \[doctor\] device '{device}' cannot be used here[^\n]*\n$")

    def test_doctor_alone_succeeds_wherever_the_cpu_works(self):
        run = self.run_titan("doctor")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"(?s)cpu\n  name +\S.*health +good\n")

    def test_the_cuda_module_names_the_missing_driver_once_its_libraries_are_there(self):
        """On a machine without some CUDA libraries, empty ones stand in: the module then loads and asks the driver."""
        module = TITAN.parent / "libtitan_cuda.so"
        if not module.exists():
            self.skipTest("this build has no CUDA module")
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(8):  # an empty library can bring a missing one's dependents into view
                environment = {**os.environ, "LD_LIBRARY_PATH": folder}
                text = subprocess.run(["ldd", module], capture_output=True, text=True, env=environment).stdout
                missing = re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE)
                if not missing:
                    break
                for name in missing:
                    make_empty_library(pathlib.Path(folder), name, text)
            run = subprocess.run([TITAN, "doctor", "--device", "cuda"], capture_output=True, text=True, timeout=120,
                                 env=environment)
        section = re.search(r"^cuda\n((?:  .*\n)+)", run.stdout, re.MULTILINE)[1]
        self.assertNotIn("cannot be loaded", section)
        if run.returncode != 0:
            self.assertRegex(section, r"none can be used: (no NVIDIA (driver|GPU)|the NVIDIA driver is for CUDA) ?")


def make_empty_library(folder, name, ldd_text):
    """A shared library without code, with the version nodes that the files in `ldd_text` ask of it."""
    versions = set()
    for file in re.findall(r"=> (/\S+torch/lib/\S+)", ldd_text):
        text = subprocess.run(["objdump", "-p", file], capture_output=True, text=True).stdout
        for block in re.findall(rf"required from {re.escape(name)}:\n((?:\s+0x.*\n)+)", text):
            versions |= {line.split()[-1] for line in block.splitlines()}
    script = folder / f"{name}.map"
    script.write_text("".join(f"{version} {{ }};\n" for version in sorted(versions)))
    command = ["g++", "-shared", "-x", "c++", "/dev/null", "-o", folder / name, f"-Wl,-soname,{name}"]
    subprocess.run(command + ([f"-Wl,--version-script={script}"] if versions else []), check=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
