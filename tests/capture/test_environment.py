"""The environment of a capture: the name of a CPU tells one model from another."""

from __future__ import annotations

import pytest

from perfguard.capture.environment import cpu_model, cpu_model_in

X86 = (
    "vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: {name}\nstepping\t: {stepping}\n"
)
ARM = (
    "BogoMIPS\t: 200.00\nCPU implementer\t: {implementer}\nCPU architecture: 8\nCPU variant\t: {variant}\n"
    "CPU part\t: {part}\nCPU revision\t: {revision}\n"
)


def x86(name: str, family: str = "6", model: str = "143", stepping: str = "8") -> str:
    """Return /proc/cpuinfo of two processors."""
    one = X86.format(vendor="GenuineIntel", family=family, model=model, name=name, stepping=stepping)
    return f"processor\t: 0\n{one}\nprocessor\t: 1\n{one}\n"


@pytest.mark.parametrize(
    "name",
    [
        "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
        "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz",
        "AMD EPYC 7B13",
        "AMD Ryzen 9 5900X 12-Core Processor",
        "Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz",
        "13th Gen Intel(R) Core(TM) i9-13900K",
    ],
)
def test_a_name_with_a_model_number_stays_as_it_is(name):
    assert cpu_model_in(x86(name), otherwise="x86_64") == name


@pytest.mark.parametrize(
    "name",
    [
        "Intel(R) Xeon(R) Processor",
        "AMD EPYC",
        "AMD EPYC-Milan Processor",
        # The clock is of no model.
        "Intel(R) Xeon(R) CPU @ 2.20GHz",
        "Intel Xeon Processor (Skylake, IBRS)",
        "QEMU Virtual CPU version 2.5+",
        "Common KVM processor",
    ],
)
def test_a_name_without_one_gets_family_model_and_stepping(name):
    assert cpu_model_in(x86(name), otherwise="x86_64") == f"{name} (family 6, model 143, stepping 8)"


@pytest.mark.parametrize("other", [{"family": "25"}, {"model": "106"}, {"stepping": "6"}])
def test_two_models_with_one_name_are_told_apart(other):
    name = "Intel(R) Xeon(R) Processor"
    assert cpu_model_in(x86(name), otherwise="") != cpu_model_in(x86(name, **other), otherwise="")


def test_arm_has_no_name_and_its_numbers_tell_it():
    kunpeng = ARM.format(implementer="0x48", variant="0x1", part="0xd01", revision="0")
    neoverse = ARM.format(implementer="0x41", variant="0x3", part="0xd0c", revision="1")
    found = "aarch64 (implementer 0x48, part 0xd01, variant 0x1, revision 0)"
    assert cpu_model_in(kunpeng, otherwise="aarch64") == found
    assert cpu_model_in(neoverse, otherwise="aarch64") != found


@pytest.mark.parametrize("text", ["", "\n", "processor\t: 0\n", "model name\t:\n", "no colon at all\n"])
def test_without_any_of_it_the_name_is_that_of_the_platform(text):
    assert cpu_model_in(text, otherwise="arm") == "arm"


def test_this_machine_has_a_name():
    assert cpu_model()
    assert cpu_model() == cpu_model().strip()
