# SPDX-License-Identifier: BSD-2-Clause
"""Debian's Chromium, headless, with everything off that would speak to the network by itself."""
import json
import os
import tempfile
import urllib.parse

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from stage import until

ARGUMENTS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
             '--disable-component-update', '--disable-sync', '--hide-scrollbars', '--disable-dev-shm-usage']


class Browser:
    def __init__(self, url):
        self.url = url
        self.profile = tempfile.TemporaryDirectory(prefix='panel-test-')
        options = Options()
        for argument in ARGUMENTS + ['--user-data-dir=' + self.profile.name]:
            options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
        options.binary_location = '/usr/bin/chromium'
        self.driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
        self.size(1280, 720)
        self.asked = []

    def end(self):
        self.driver.quit()
        self.profile.cleanup()

    def size(self, width, height, dark=False, phone=False):
        cdp = self.driver.execute_cdp_cmd
        cdp('Emulation.setDeviceMetricsOverride', {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': phone})
        cdp('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]})

    def load(self):
        self.driver.get(self.url + '/')
        until(lambda: self.text('#freshness').startswith('As of'), 'the page has its first numbers', 30)

    def script(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def text(self, selector):
        return self.script('return document.querySelector(arguments[0])?.textContent ?? ""', selector)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, button):
        """A click, as a person does it, on a button that is not at work."""
        selector = f'[data-press="{button}"]'
        until(lambda: not self.script('return document.querySelector(arguments[0]).disabled', selector), f'{button} can be pressed', 90)
        self.script('document.querySelector(arguments[0]).scrollIntoView({block: "center"})', selector)
        self.find(selector).click()

    def way(self, name):
        """What the table shows of a way, in cents; None: no amount."""
        shown = self.text(f'tr[data-way="{name}"] td.drift')
        digits = shown.replace('$', '').replace(',', '').replace('+', '').replace('\u2212', '-')
        return round(float(digits) * 100) if digits and digits != '\u2013' else None

    def shot(self, path, width=1280, height=720, dark=False, phone=False, whole=False):
        self.size(width, height, dark, phone)
        if whole:
            height = min(4000, self.script('return document.documentElement.scrollHeight'))
            self.size(width, height, dark, phone)
        until(lambda: self.script('return innerWidth') == width, 'the window has its size')
        at = self.text('#freshness')
        until(lambda: self.text('#freshness') != at, 'the page has drawn once more', 30)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.driver.save_screenshot(path)
        self.size(1280, 720)

    def complaints(self):
        """What the console has that is no plain message, since the last call."""
        return [entry['message'] for entry in self.driver.get_log('browser') if entry['level'] in ('SEVERE', 'WARNING')]

    def strangers(self):
        """Every address asked for that is not ours, ever; chrome:// is Chromium itself, whose first tab is a page of its own."""
        for entry in self.driver.get_log('performance'):
            message = json.loads(entry['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                self.asked.append(message['params']['request']['url'])
        ours = urllib.parse.urlsplit(self.url).netloc
        return [url for url in self.asked if not url.startswith(('data:', 'chrome://')) and urllib.parse.urlsplit(url).netloc != ours]
