# SPDX-License-Identifier: BSD-2-Clause
"""The demo's page in a real browser, against the real services. Arguments are parts of names: only such tests run.

What a button does is looked up in PostgreSQL, in the processes and in the topic, not on the page. The last line is `N passed, N failed`."""
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True
from browser import Browser  # noqa: E402
from stage import SOURCE, Stage  # noqa: E402
import tests  # noqa: E402

SHOTS = os.path.join(SOURCE, 'build/panel')


def run(test, stage, browser):
    begun = time.monotonic()
    try:
        test(stage, browser)
    except Exception as error:  # whatever it is, it is a test that failed
        print(f'FAILED {test.__name__} ({time.monotonic() - begun:.1f} s): {error}')
        traceback.print_exc(file=sys.stdout)
        browser.driver.save_screenshot(f'{SHOTS}/failed-{test.__name__}.png')
        return False
    print(f'ok {test.__name__} ({time.monotonic() - begun:.1f} s)')
    return True


def main():
    sys.stdout.reconfigure(line_buffering=True)
    os.makedirs(SHOTS, exist_ok=True)
    chosen = [test for test in tests.ALL if not sys.argv[1:] or any(part in test.__name__ for part in sys.argv[1:])]
    stage = Stage(SHOTS + '/demo.log')
    passed = failed = 0
    try:
        browser = Browser(stage.url)
        try:
            browser.load()
            for test in chosen:
                if run(test, stage, browser):
                    passed += 1
                else:
                    failed += 1
        finally:
            browser.end()
    finally:
        if not stage.end():
            print('FAILED Ctrl-C left the folder of the demo behind')
            failed += 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


sys.exit(main())
