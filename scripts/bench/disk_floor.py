"""Measures how fast a program can read, write and copy the files of a folder with direct access (bypassing the page
cache) and several aligned blocks in flight. Block size and depth are chosen once in advance: the disk's speed varies,
and the best of several tries per round would be compared with a single try of an export."""

import concurrent.futures
import errno
import mmap
import os
import threading
import time

SETTLE_SECONDS = 1
WAYS = [(block, depth) for block in (1 << 20, 4 << 20) for depth in (1, 4, 8)]


def seconds_of(function, *args):
    began = time.monotonic()
    function(*args)
    return time.monotonic() - began


def drop_from_cache(paths):
    """Drops the files from the page cache, so that the next reader reads the disk."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def settle(paths):
    """Waits until the disk has finished earlier writes and removals, then drops the files from the cache."""
    os.sync()
    time.sleep(SETTLE_SECONDS)
    drop_from_cache(paths)


class Blocks:
    """Distributes blocks, as (file index, offset) in order, to several threads."""

    def __init__(self, sizes, block):
        self.lock = threading.Lock()
        self.places = ((i, at) for i, size in enumerate(sizes) for at in range(0, size, block))

    def __iter__(self):
        while True:
            with self.lock:
                place = next(self.places, None)
            if place is None:
                return
            yield place


def open_direct(path, flags):
    """Opens with direct access if the file system supports it; file systems in memory do not."""
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o644)


def in_threads(depth, work):
    """Runs work() in `depth` threads. Re-raises an exception of any thread."""
    with concurrent.futures.ThreadPoolExecutor(depth) as pool:
        for done in [pool.submit(work) for _ in range(depth)]:
            done.result()


def read_all(paths, block, depth):
    files = [open_direct(path, os.O_RDONLY) for path in paths]
    blocks = Blocks([os.path.getsize(path) for path in paths], block)

    def work():
        with mmap.mmap(-1, block) as buffer:  # page-aligned, which direct access requires
            for file, offset in blocks:
                os.preadv(files[file], [buffer], offset)

    in_threads(depth, work)
    for file in files:
        os.close(file)


def write_all(path, size, block, depth):
    file = open_direct(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    size -= size % block
    os.posix_fallocate(file, 0, size)
    blocks, content = Blocks([size], block), os.urandom(block)

    def work():
        with mmap.mmap(-1, block) as buffer:
            buffer[:] = content
            for _, offset in blocks:
                os.pwritev(file, [buffer], offset)

    in_threads(depth, work)
    os.fsync(file)
    os.close(file)


def read_and_write(paths, path, size, block, depth):
    """Reads and writes at the same time, like an export."""
    reader = threading.Thread(target=read_all, args=(paths, block, depth))
    reader.start()
    write_all(path, size, block, depth)
    reader.join()


def total_size(paths):
    return sum(os.path.getsize(path) for path in paths)


def read_rate(paths, way):
    """GB/s of reading."""
    return total_size(paths) / seconds_of(read_all, paths, *way) / 1e9


def write_rate(path, size, way):
    """GB/s of writing `size` bytes. Removes the file."""
    try:
        return size / seconds_of(write_all, path, size, *way) / 1e9
    finally:
        os.unlink(path)


def copy_rate(paths, path, way):
    """GB/s of reading while the same number of bytes is written. Removes the file."""
    size = total_size(paths)
    try:
        return size / seconds_of(read_and_write, paths, path, size, *way) / 1e9
    finally:
        os.unlink(path)


def fastest_ways(paths, path):
    """The fastest (block size, depth) of WAYS for each measurement, after one try each."""
    size = total_size(paths)
    return {
        "read": max(WAYS, key=lambda way: read_rate(paths, way)),
        "write": max(WAYS, key=lambda way: write_rate(path, size, way)),
        "read_and_write": max(WAYS, key=lambda way: copy_rate(paths, path, way)),
    }
