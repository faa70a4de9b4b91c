"""Measures how fast a program can read, write and copy the files of a folder: past the page cache, in aligned blocks,
several at a time. The best block size and depth are chosen once ahead: a disk's speed changes from minute to minute,
and taking the best of several tries in each round would compare it with a single try of an export."""

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
    """Makes the next reader read the disk."""
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
    """Hands out (file number, offset) of each block in order, to several threads."""

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
    """Opens past the page cache where the file system can do that; one in memory cannot."""
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o644)


def in_threads(depth, work):
    """Runs work() in `depth` threads and raises what one of them raises."""
    with concurrent.futures.ThreadPoolExecutor(depth) as pool:
        for done in [pool.submit(work) for _ in range(depth)]:
            done.result()


def read_all(paths, block, depth):
    files = [open_direct(path, os.O_RDONLY) for path in paths]
    blocks = Blocks([os.path.getsize(path) for path in paths], block)

    def work():
        with mmap.mmap(-1, block) as buffer:  # page-aligned, as direct access asks for
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
    """Reads and writes at the same time, as an export does."""
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
    """GB/s of reading while as many bytes are written. Removes the file."""
    size = total_size(paths)
    try:
        return size / seconds_of(read_and_write, paths, path, size, *way) / 1e9
    finally:
        os.unlink(path)


def fastest_ways(paths, path):
    """For each measurement the fastest of WAYS, (block size, depth), after one try of each."""
    size = total_size(paths)
    return {
        "read": max(WAYS, key=lambda way: read_rate(paths, way)),
        "write": max(WAYS, key=lambda way: write_rate(path, size, way)),
        "read_and_write": max(WAYS, key=lambda way: copy_rate(paths, path, way)),
    }
