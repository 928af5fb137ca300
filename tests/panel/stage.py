# SPDX-License-Identifier: BSD-2-Clause
"""The demo with its page, as `make demo` starts it for a person, and questions to its database and services that do not go through the page."""
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

SLOW = int(os.environ.get('TEST_SLOW', '1'))  # the factor for deadlines, as in tests/lib/test.h
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def until(condition, what, seconds=60):
    """Ask until the condition is true, and return what it returned."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'not within {seconds * SLOW} s: {what}')
        time.sleep(0.1)


class Stage:
    def __init__(self, log, **settings):
        environment = {**os.environ, 'STAY': 'yes', 'BUILD': os.environ.get('BUILD', 'build/release'), **settings}
        self.build = environment['BUILD']
        self.log = log
        with open(log, 'w') as out:
            self.process = subprocess.Popen(['producer-demo/demo.sh'], cwd=SOURCE, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                            env=environment, start_new_session=True,
                                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        try:
            self.url = until(lambda: self.said(r'the page: (http\S+)/'), 'the demo prints the address of its page', 180)
            self.folder = self.said(r'temporary, in (\S+)')
            self.kafka = self.said(r'(?:broker|Kafka \S+) at ([\d.:]+)')
            self.port = int(self.url.rsplit(':', 1)[1])
        except BaseException:
            self.end()
            raise

    def said(self, pattern):
        if self.process.poll() is not None:
            raise AssertionError('the demo ended: ' + open(self.log).read())
        found = re.search(pattern, open(self.log).read())
        return found and found[1]

    def end(self):
        """Ctrl-C; returns whether it cleaned up."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return not os.path.exists(getattr(self, 'folder', '/nonexistent'))

    # --- the database ---

    @property
    def database(self):
        port = next(name for name in os.listdir(self.folder + '/postgres') if re.fullmatch(r'\.s\.PGSQL\.\d+', name)).rsplit('.', 1)[1]
        return f'host={self.folder}/postgres port={port} user=demo dbname=postgres'

    def sql(self, statement):
        """The first column of the first row, as text."""
        done = subprocess.run(['psql', '-qXAt', '-v', 'ON_ERROR_STOP=1', self.database, '-c', statement], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout.strip().split('\n')[0].split('|')[0]

    def number(self, statement):
        return int(self.sql(statement) or 0)

    def drift(self, way):
        """Without what is on its way: entries beyond the first of their event."""
        return self.number(f'SELECT coalesce(sum(again), 0)::bigint FROM (SELECT (count(*) - 1) * min(delta_cents) AS again FROM '
                           f'ledger_{way.replace("-", "_")}.entry GROUP BY event_id) e')

    # --- processes ---

    def run(self, name):
        return f'{self.folder}/run/{name}'

    def pid(self, name):
        return int(open(self.run(name + '.pid')).read())

    def metrics(self, name):
        port = open(self.run(name + '.port')).read().strip()
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=5) as answer:
            return answer.read().decode()

    def metric(self, name, metric):
        try:
            text = self.metrics(name)
        except OSError:
            return 0
        return sum(float(line.rsplit(' ', 1)[1]) for line in text.split('\n') if re.match(metric + r'[{ ]', line))

    # --- the panel, without a browser ---

    def ask(self, path, method='GET', body=None, headers=None):
        """Returns (status, headers, body)."""
        request = urllib.request.Request(self.url + path, body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def snapshot(self):
        with urllib.request.urlopen(self.url + '/events', timeout=30) as stream:
            line = stream.readline()
        return json.loads(line[len(b'data: '):])

    def way(self, name):
        return next(way for way in self.snapshot()['ways'] if way['way'] == name)

    def press(self, button, **arguments):
        """Press, as our own page would, and wait until it is done; returns its sentence."""
        headers = {'Origin': self.url, 'Content-Type': 'application/json'}
        status, _, body = self.ask('/press/' + button, 'POST', json.dumps(arguments).encode(), headers)
        assert status == 202, (button, status, body)
        number = json.loads(body)['number']
        return until(lambda: self.pressed(number), f'{button} is done', 120)

    def pressed(self, number):
        press = next((p for p in self.snapshot()['presses'] if p['number'] == number), None)
        assert not press or press['state'] != 'failed', press
        return press and press['state'] == 'done' and press['text']
