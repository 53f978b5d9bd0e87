"""The programs of the pods: a latency-sensitive server with its client, and neighbours that use CPU or disks."""

SERVER = """
import http, mmap, os, random, socket, sys, time
work, file = float(sys.argv[1]), os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECT)
blocks, page = os.fstat(file).st_size // 4096, mmap.mmap(-1, 4096)
listener = socket.create_server((sys.argv[4], int(sys.argv[3])))
number = 0
while True:
    client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    waiting = b""
    while chunk := client.recv(65536):
        *requests, waiting = (waiting + chunk).split(b"\\r\\n\\r\\n")
        for _ in requests:
            done = time.thread_time() + work
            while time.thread_time() < done:
                pass
            number += 1
            if number % 5 == 0:
                os.preadv(file, [page], 4096 * random.randrange(blocks))
            client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
"""
"""Arguments: seconds of CPU of a request, a file of which every fifth request reads a block past the page cache, a
port, and the address at which it listens. It answers HTTP requests in their order."""

BURNER = """
import sys, time
busy = float(sys.argv[1])
while True:
    begin = time.monotonic()
    done = begin + 0.05 * busy
    while time.monotonic() < done:
        pass
    time.sleep(max(0.0, begin + 0.05 - time.monotonic()))
"""
"""Argument: the share of the time in which it uses a core."""

WRITER = """
import os, random, sys
file, block = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), os.urandom(1 << 20)
while True:
    for _ in range(16):
        os.pwrite(file, block, random.randrange(256) << 20)
    os.fdatasync(file)
"""
"""Argument: a file. It writes 16 MiB at a time, at random places, and waits until they are on the disk."""

READER = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
while True:
    for offset in range(0, size, 1 << 20):
        os.pread(file, 1 << 20, offset)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
"""
"""Argument: a file, which it reads through the page cache again and again, from the disk each time."""
