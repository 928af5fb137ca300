# SPDX-License-Identifier: BSD-2-Clause
"""memory.py [MINUTES [CLIENTS]]: does the page's server keep its size? So many clients read its stream for so long (60 minutes, 10 clients); each
reconnects every minute. A line every half minute: the time, resident kB, open files, events received."""
import http.client
import os
import re
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from stage import SOURCE, Stage  # noqa: E402

received = 0


def client(port, until):
    global received
    while time.monotonic() < until:
        try:
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
            connection.request('GET', '/events')
            answer = connection.getresponse()
            again = time.monotonic() + 60
            while time.monotonic() < min(again, until):
                line = answer.readline()  # first: what is added to is read before the call
                received += line.startswith(b'data: ')
            connection.close()
        except OSError:
            time.sleep(1)


def main():
    minutes, clients = float((sys.argv[1:] + ['60'])[0]), int((sys.argv[2:] + ['10'])[0])
    os.makedirs(SOURCE + '/build/panel', exist_ok=True)
    stage = Stage(SOURCE + '/build/panel/memory-demo.log', WAYS='none seen-cache unique', RATE=os.environ.get('RATE', '20'))
    panel = int(subprocess.run(['pgrep', '-f', f'panel --folder {stage.folder}/run'], capture_output=True, text=True, check=True).stdout.split()[0])
    begun = time.monotonic()
    for _ in range(clients):
        threading.Thread(target=client, args=(stage.port, begun + minutes * 60), daemon=True).start()
    while time.monotonic() < begun + minutes * 60:
        time.sleep(30)
        status = open(f'/proc/{panel}/status').read()
        resident, files = re.search(r'VmRSS:\s+(\d+)', status)[1], len(os.listdir(f'/proc/{panel}/fd'))
        print(f'{time.monotonic() - begun:6.0f} s  {resident:>7} kB  {files:4} files  {received} events', flush=True)
    stage.end()


main()
