"""Exports to a file system that loses power: everything that was not yet written to its journal is lost. After a
remount, the same command produces the bytes of an uninterrupted export, and whatever looks finished is complete.

Requires root for a separate file system: an ext4 in a file, which the ioctl EXT4_IOC_SHUTDOWN stops immediately."""

import fcntl
import os
import random
import shutil
import struct
import subprocess
import time

import pytest

from exports import MANNERS, export_command, files_of, finish, is_finished

LOSSES = int(os.environ.get("MOEC_POWER_LOSSES", "3"))
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2


class Disk:
    def __init__(self, folder):
        self.image, self.folder = folder / "image", folder / "disk"
        self.folder.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(256 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)

    def mount(self):
        """Returns why the file system cannot be mounted, or an empty text if it is mounted."""
        return subprocess.run(["mount", "-o", "loop", str(self.image), str(self.folder)], capture_output=True,
                              text=True).stderr

    def unmount(self):
        subprocess.run(["umount", str(self.folder)], check=True)

    def lose_power(self):
        opened = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(opened)


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    if not shutil.which("mkfs.ext4"):
        pytest.skip("there is no mkfs.ext4")
    disk = Disk(tmp_path)
    refused = disk.mount()
    if refused:
        pytest.skip(f"a loop device cannot be mounted here: {refused.strip()}")
    try:
        disk.lose_power()
    except OSError as error:
        disk.unmount()
        pytest.skip(f"ext4 cannot be stopped here: {error}")
    disk.unmount()
    assert disk.mount() == ""
    yield disk
    disk.unmount()


@pytest.mark.parametrize("target,jobs", MANNERS[3:6])
def test_export_resumes_after_power_loss(target, jobs, whole, disk):
    expected, seconds = whole(target)
    chance = random.Random(8)
    out = disk.folder / "out"
    for _ in range(LOSSES):
        shutil.rmtree(out, ignore_errors=True)
        os.sync()
        export = subprocess.Popen(export_command(out, target, jobs), stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 1.2 * seconds))
        disk.lose_power()
        assert export.wait(timeout=60) in (0, 2)
        disk.unmount()
        assert disk.mount() == ""
        if out.exists() and is_finished(out):
            assert files_of(out) == expected
        else:
            finish(out, expected, target, jobs)
