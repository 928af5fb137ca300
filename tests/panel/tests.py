# SPDX-License-Identifier: BSD-2-Clause
"""The tests, in the order in which they run on one demo."""
import http.client
import json
import os
import re
import signal
import subprocess
import time

from selenium.webdriver.common.keys import Keys

from stage import SOURCE, until

SHOTS = os.path.join(SOURCE, 'build/panel')
UNSAFE = ('none', 'seen-cache', 'check-then-act', 'redis-before', 'redis-after', 'kafka-eos', 'at-most-once')
SAFE = ('unique', 'version', 'passthrough', 'kafka-to-kafka')
PANEL = "client_id = 'panel'"


def absent(stage):
    return [line.split('|')[0] for line in stage.snapshot()['absent'].split('\n') if line]


def orders_of_panel(stage):
    return stage.number(f'SELECT count(*) FROM shop.orders WHERE {PANEL}')


def newest(stage):
    return stage.sql(f'SELECT id FROM shop.orders WHERE {PANEL} ORDER BY created_at DESC LIMIT 1')


def booked(stage, order, way='unique'):
    return stage.number(f"SELECT coalesce(sum(cents), 0)::bigint FROM ledger_{way}.balance WHERE order_id = '{order}'")


def said(browser, text):
    """The newest line of what was pressed."""
    return until(lambda: text in browser.text('#log li:first-child'), f'the log says "{text}"', 90)


def published_goes_on(stage, seconds=60):
    before = stage.number('SELECT count(*) FROM outbox.event WHERE sent_at IS NOT NULL')
    until(lambda: stage.number('SELECT count(*) FROM outbox.event WHERE sent_at IS NOT NULL') > before + 20, 'orders are published again', seconds)


# --- 1: what is shown --------------------------------------------------------------------------------------------------


def page_shows_every_way(stage, browser):
    shown = browser.script('return [...document.querySelectorAll("tr.way")].map((row) => row.dataset.way)')
    assert sorted(shown) == sorted(SAFE + UNSAFE), shown
    missing = absent(stage)
    for way in SAFE + UNSAFE:
        grey = browser.script('return document.querySelector(arguments[0]).classList.contains("absent")', f'tr[data-way="{way}"]')
        assert grey == (way in missing), (way, missing)
        if grey:
            assert 'real Kafka' in browser.text(f'tr[data-way="{way}"]') or 'Redis' in browser.text(f'tr[data-way="{way}"]')
    until(lambda: browser.way('unique') == 0 and '\u2713 exact' in browser.text('tr[data-way="unique"]'), 'unique is shown as exact')


def amounts_are_those_of_the_database(stage, browser):
    """While nothing is ordered, the page and one query to each ledger must agree to the cent."""
    open(stage.run('client.down'), 'w').close()
    try:
        until(lambda: not os.path.exists(f'/proc/{stage.pid("client")}'), 'the client is stopped')
        intended = 'SELECT coalesce(sum(cents), 0)::bigint FROM shop.intended'
        until(lambda: stage.number(f'SELECT coalesce(sum(cents), 0)::bigint FROM ledger_unique.balance') == stage.number(intended), 'all has arrived')
        for way in ('none', 'check-then-act', 'unique', 'version'):
            until(lambda: stage.way(way)['open'] == 0, f'the page knows that all has arrived at {way}')
            query = f'SELECT (SELECT coalesce(sum(cents), 0) FROM ledger_{way.replace("-", "_")}.balance)::bigint - ({intended})'
            until(lambda: browser.way(way) == stage.number(query), f'the page and the ledger of {way} say the same')
    finally:
        os.unlink(stage.run('client.down'))
    until(lambda: os.path.exists(f'/proc/{stage.pid("client")}'), 'the client orders again')


def restart_makes_the_cache_jump(stage, browser):
    before = stage.drift('none'), stage.drift('seen-cache')
    pids = {way: stage.pid('consumer-' + way) for way in ('none', 'seen-cache', 'unique')}
    browser.press('restart-consumers')
    until(lambda: all(stage.pid('consumer-' + way) != pid for way, pid in pids.items()), 'other consumers run')
    until(lambda: stage.drift('none') > before[0] and stage.drift('seen-cache') > before[1], 'the ledgers of none and seen-cache jump', 120)
    until(lambda: (browser.way('none') or 0) > 0 and (browser.way('seen-cache') or 0) > 0, 'the page shows it', 60)
    until(lambda: any(mark['text'] == 'consumers restarted' for mark in stage.snapshot()['marks']), 'the restart is marked')
    assert stage.drift('unique') == 0 and browser.way('unique') == 0
    assert '\u25b2 too much' in browser.text('tr[data-way="seen-cache"]')


# --- 1: what the buttons do --------------------------------------------------------------------------------------------


def button_redeliver(stage, browser):
    for percent in ('25', '3'):
        browser.script('document.querySelector(arguments[0]).click()', f'input[name=percent][value="{percent}"]')
        until(lambda: open(stage.run('redeliver')).read().strip() == percent, f'restarted consumers would deliver {percent} % again')
        said(browser, f'{percent} %')
        if percent == '25':
            before = stage.metric('consumer-unique', 'payment_redelivered_total'), stage.metric('consumer-unique', 'payment_deliveries_total')
            until(lambda: stage.metric('consumer-unique', 'payment_deliveries_total') > before[1] + 300, '300 deliveries more', 90)
            copies = stage.metric('consumer-unique', 'payment_redelivered_total') - before[0]
            assert 20 < copies < 200, copies


def button_order(stage, browser):
    before = orders_of_panel(stage)
    browser.press('order')
    until(lambda: orders_of_panel(stage) == before + 1, 'one order more')
    order = newest(stage)
    until(lambda: booked(stage, order) == stage.number(f"SELECT amount_cents FROM shop.orders WHERE id = '{order}'"), 'its ledger has it')
    key = stage.sql(f"SELECT headers->>'idempotency-key' FROM outbox.event WHERE key = '{order}'")
    assert key == stage.sql("SELECT key FROM shop.idempotency_keys WHERE scope = 'panel' ORDER BY created_at DESC LIMIT 1")
    shown = 'return [...document.querySelectorAll("#hops code.key")].map((chip) => chip.title)'
    until(lambda: browser.script(shown) == [key] * 3, 'the journey shows the key at the request, in the outbox and in Kafka')
    until(lambda: 'have booked' in browser.text('#hops') and browser.text('#hops .books').count('\u2713') >= 8, 'the ledgers have it')


def button_twice(stage, browser):
    before = orders_of_panel(stage)
    browser.press('twice')
    said(browser, 'one order')
    assert orders_of_panel(stage) == before + 1
    order = newest(stage)
    assert stage.number(f"SELECT count(*) FROM outbox.event WHERE key = '{order}'") == 1
    until(lambda: '2 requests' in browser.text('#hops') and 'the same one again' in browser.text('#hops'), 'the journey shows two requests')


def button_bad_client(stage, browser):
    before = orders_of_panel(stage)
    browser.press('bad-client')
    said(browser, 'two orders')
    assert orders_of_panel(stage) == before + 2
    assert stage.number(f'SELECT count(*) FROM shop.orders WHERE {PANEL} GROUP BY reference ORDER BY max(created_at) DESC LIMIT 1') == 2
    until(lambda: 'ordered twice' in browser.text('#doubled'), 'the page tells what was ordered twice')
    until(lambda: len(browser.script('return document.querySelectorAll("#hops .trip")')) == 2, 'the journey shows both orders')


def button_kill_relay(stage, browser):
    pids = stage.pid('relay'), stage.pid('relay-2')
    epoch = stage.number('SELECT epoch FROM outbox.lease')
    browser.press('kill-relay')
    said(browser, 'kill -9 of relay')
    assert 'As it should be' in browser.text('#log li:first-child'), browser.text('#log li:first-child')
    until(lambda: (stage.pid('relay') != pids[0]) != (stage.pid('relay-2') != pids[1]), 'one of the two was started again')
    until(lambda: stage.number('SELECT epoch FROM outbox.lease') > epoch, 'another has the lease')
    published_goes_on(stage)


def button_pause_relay(stage, browser):
    until(lambda: stage.snapshot()['pipeline']['relays'][0]['answered'] and stage.snapshot()['pipeline']['relays'][1]['answered'], 'two relays')
    pids = stage.pid('relay'), stage.pid('relay-2')
    epoch = stage.number('SELECT epoch FROM outbox.lease')
    browser.press('pause-relay')
    said(browser, 'took over')
    assert 'publishes no more' in browser.text('#log li:first-child')
    assert (stage.pid('relay'), stage.pid('relay-2')) == pids
    assert stage.number('SELECT epoch FROM outbox.lease') > epoch
    published_goes_on(stage)


def button_broker(stage, browser):
    browser.press('broker')
    said(browser, 'stopped')
    until(lambda: 'broker does not answer' in browser.text('#alarm'), 'the page says that the broker is away')
    until(lambda: stage.number('SELECT count(*) FROM outbox.event WHERE sent_at IS NULL') > 20, 'orders wait')
    assert browser.text('[data-press="broker"]') == 'Start the broker'
    browser.press('broker')
    said(browser, 'answers again')
    published_goes_on(stage)
    until(lambda: not browser.text('#alarm'), 'the alarm is over', 90)


def button_database(stage, browser):
    pid = stage.pid('postgres')
    browser.press('database')
    said(browser, 'stopped')
    until(lambda: not os.path.exists(f'/proc/{pid}'), 'its process is gone')
    until(lambda: 'PostgreSQL does not answer' in browser.text('#alarm'), 'the page says that the database is away')
    browser.press('database')
    said(browser, 'answers again')
    until(lambda: not browser.text('#alarm'), 'the alarm is over', 90)
    published_goes_on(stage, 90)


def buttons_poison_and_release(stage, browser):
    assert browser.script('return document.querySelector(arguments[0]).disabled', '[data-press="release"]'), 'nothing is poisoned'
    browser.press('poison')
    said(browser, 'will never take')
    order = newest(stage)
    waiting = f"SELECT count(*) FROM outbox.event WHERE key = '{order}' AND sent_at IS NULL"
    until(lambda: stage.number(waiting) == 2, 'the poisoned row and the one behind it wait')
    published_goes_on(stage)
    assert stage.number(waiting) == 2
    until(lambda: 'too large for Kafka: waits' in browser.text('#hops'), 'the journey shows it')
    browser.press('release')
    said(browser, 'deleted')
    until(lambda: stage.number(waiting) == 0, 'what waited is published', 90)
    assert stage.number(f"SELECT count(*) FROM outbox.event WHERE key = '{order}'") == 2


def going_back_presses_nothing(stage, browser, told):
    """From step 2 to step 1 and on again: what was told is told again, at once."""
    pressed = stage.snapshot()['presses'][-1]['number']
    for button, step in (('#tour-back', 1), ('#tour-next', 2)):
        browser.find(button).click()
        until(lambda: browser.text('#tour-step') == f'Step {step} of 5', f'step {step} again')
        assert browser.text('#tour-see') == told[step - 1]
    assert stage.snapshot()['presses'][-1]['number'] == pressed


def tour_runs_to_its_end(stage, browser):
    browser.size(1280, 720)
    browser.script('scrollTo(0, 0)')
    browser.find('#tour-begin').click()
    told = []
    for step in range(1, 6):
        until(lambda: browser.text('#tour-step') == f'Step {step} of 5', f'step {step}')
        until(lambda: not browser.script('return document.getElementById("tour-next").disabled'), f'step {step} has shown what it says', 90)
        told.append(browser.text('#tour-see'))
        if step == 2:
            browser.shot(f'{SHOTS}/tour-dark.png', dark=True)
            going_back_presses_nothing(stage, browser, told)
        browser.find('#tour-next').click()
    until(lambda: browser.script('return document.getElementById("tour").hidden'), 'the tour is over')
    print('   ' + '\n   '.join(told))
    for text, wanted in zip(told, ('nobody paid', 'jumped by', 'nothing is lost', 'One order', 'Two orders')):
        assert wanted in text, told


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the script was first


# --- 2: it survives what it shows --------------------------------------------------------------------------------------


def page_survives_kills_without_reload(stage, browser):
    browser.script('window.notReloaded = true')
    for name, words in (('order-service', 'order service does not run'), ('postgres', 'PostgreSQL does not answer')):
        pid = stage.pid(name)
        open(stage.run(name + '.down'), 'w').close()
        kill(pid)
        try:
            until(lambda: words in browser.text('#alarm'), f'the page says that {name} is gone', 60)
        finally:
            os.unlink(stage.run(name + '.down'))
        until(lambda: not browser.text('#alarm'), f'the page says that {name} is back', 120)
    for name in ('relay', 'relay-2', 'consumer-unique', 'consumer-none', 'card-processor'):
        pid = stage.pid(name)
        kill(pid)
        until(lambda: stage.pid(name) != pid and next(p for p in stage.snapshot()['places'] if p['name'] == name)['state'] == 'running', f'{name} is back')
    published_goes_on(stage, 90)
    until(lambda: browser.way('unique') == 0, 'unique is shown as exact')
    assert browser.script('return window.notReloaded') is True


def nothing_is_lost_by_all_this(stage, browser):
    """The whole topic is read beside the outbox: every committed event once at least, nothing else, in order."""
    open(stage.run('client.down'), 'w').close()
    try:
        until(lambda: not os.path.exists(f'/proc/{stage.pid("client")}'), 'the client is stopped')
        until(lambda: stage.number('SELECT count(*) FROM outbox.event WHERE sent_at IS NULL') == 0, 'everything is published', 90)
        judged = subprocess.run([f'{stage.build}/oracle', 'relay', stage.database, stage.kafka, 'orders'], cwd=SOURCE, capture_output=True, text=True, timeout=120)
        assert judged.returncode == 0, judged.stdout + judged.stderr
        intended = 'SELECT coalesce(sum(cents), 0)::bigint FROM shop.intended'
        for way in ('unique', 'version', 'passthrough'):
            until(lambda: stage.number(f'SELECT coalesce(sum(cents), 0)::bigint FROM ledger_{way}.balance') == stage.number(intended), f'{way} is exact', 90)
    finally:
        os.unlink(stage.run('client.down'))


# --- 3: who may -------------------------------------------------------------------------------------------------------


def raw(stage, method, path, headers, body=b''):
    """With exactly these headers."""
    connection = http.client.HTTPConnection('127.0.0.1', stage.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader('Content-Length', str(len(body)))
    connection.endheaders(body)
    status = connection.getresponse().status
    connection.close()
    return status


def only_our_own_page_may_press(stage, browser):
    ours, json_type = f'127.0.0.1:{stage.port}', {'Content-Type': 'application/json'}
    good = {'Host': ours, 'Origin': f'http://{ours}', **json_type}
    before = orders_of_panel(stage)
    refused = [
        (403, {'Host': ours, **json_type}),
        (403, {**good, 'Origin': 'http://evil.example'}),
        (403, {**good, 'Origin': 'null'}),
        (403, {**good, 'Origin': f'http://127.0.0.1:{stage.port + 1}'}),
        (403, {**good, 'Sec-Fetch-Site': 'cross-site'}),
        (403, {**good, 'Sec-Fetch-Site': 'same-site'}),
        (415, {**good, 'Content-Type': 'text/plain'}),
        (415, {**good, 'Content-Type': 'application/x-www-form-urlencoded'}),
        (421, {**good, 'Host': 'evil.example'}),
        (421, {**good, 'Host': f'evil.example:{stage.port}'}),
        (421, {**good, 'Host': '127.0.0.1'}),
    ]
    for status, headers in refused:
        assert raw(stage, 'POST', '/press/order', headers, b'{}') == status, (status, headers)
    assert raw(stage, 'GET', '/press/order', good) == 405
    assert raw(stage, 'OPTIONS', '/press/order', {**good, 'Access-Control-Request-Method': 'POST'}) == 405
    assert raw(stage, 'POST', '/press/order', good, b'[]') == 400
    assert raw(stage, 'POST', '/press/nothing', good, b'{}') == 404
    assert raw(stage, 'GET', '/', {'Host': 'evil.example'}) == 421
    assert raw(stage, 'GET', '/events', {'Host': 'evil.example'}) == 421
    assert raw(stage, 'GET', '/../main.c', {'Host': ours}) == 404
    time.sleep(1)
    assert orders_of_panel(stage) == before
    assert raw(stage, 'POST', '/press/order', {**good, 'Sec-Fetch-Site': 'same-origin'}, b'{}') == 202
    until(lambda: orders_of_panel(stage) == before + 1, 'our own page may')


def only_loopback_listens(stage, browser):
    """No process of the demo has a socket that others could reach."""
    ports = {int(open(stage.run(name)).read()) for name in os.listdir(stage.folder + '/run') if name.endswith('.port')} | {stage.port}
    ports.add(int(stage.kafka.rsplit(':', 1)[1]))
    for table in ('/proc/net/tcp', '/proc/net/tcp6'):
        for line in open(table).read().split('\n')[1:]:
            field = line.split()
            if len(field) > 3 and field[3] == '0A' and int(field[1].split(':')[1], 16) in ports:
                assert field[1].split(':')[0] in ('0100007F', '00000000000000000000000001000000'), line
    _, headers, _ = stage.ask('/')
    assert "default-src 'none'" in headers['Content-Security-Policy'] and headers['X-Content-Type-Options'] == 'nosniff'
    assert not [name for name in headers if name.lower().startswith('access-control')]


def clients_come_and_go_and_memory_stays(stage, browser):
    """Ten that stay, and 400 that come and go, 40 at once; the long version is tests/panel/memory.py."""
    panel = int(subprocess.run(['pgrep', '-f', f'panel --folder {stage.folder}/run'], capture_output=True, text=True, check=True).stdout.split()[0])
    rss = lambda: int(re.search(r'VmRSS:\s+(\d+)', open(f'/proc/{panel}/status').read())[1])  # noqa: E731
    files = lambda: len(os.listdir(f'/proc/{panel}/fd'))  # noqa: E731

    def visit():
        connection = http.client.HTTPConnection('127.0.0.1', stage.port, timeout=30)
        connection.request('GET', '/events')
        return connection, connection.getresponse()

    def come_and_go(visits):
        for _ in range(visits // 40):
            guests = [visit() for _ in range(40)]
            for connection, answer in guests:
                assert answer.status == 200 and answer.readline().startswith(b'data: ')
                answer.close()
                connection.close()
            until(lambda: files() <= before + 2, 'connections that are gone are closed', 30)

    staying = [visit() for _ in range(10)]
    before = files()
    come_and_go(120)
    first = rss()
    come_and_go(280)
    last = rss()
    print(f'   {first} kB after 120 visits, {last} kB after 400, {files()} files')
    assert last < first + 3072, (first, last)
    crowd = [visit() for _ in range(70)]
    assert crowd[-1][1].status == 503
    for connection, answer in crowd + staying:
        answer.close()
        connection.close()
    until(lambda: files() < before, 'all are closed', 30)


# --- for people -------------------------------------------------------------------------------------------------------


def keyboard_is_enough(stage, browser):
    before = orders_of_panel(stage)
    browser.script('document.activeElement.blur(); scrollTo(0, 0)')
    seen = []
    for _ in range(40):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.script('const e = document.activeElement; return [e.dataset?.press ?? e.id ?? e.name, getComputedStyle(e).outlineStyle]')
        seen.append(focused[0])
        if focused[0] == 'order':
            assert focused[1] != 'none', 'the focus can be seen'
            browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
            break
    until(lambda: orders_of_panel(stage) == before + 1, f'Enter presses the button; Tab came by {seen}')
    assert 'tour-begin' in seen and 'restart-consumers' in seen, seen


def it_fits_a_phone(stage, browser):
    for width in (320, 390):
        browser.size(width, 844, phone=True)
        time.sleep(0.5)
        assert browser.script('return document.documentElement.scrollWidth') <= width
        small = browser.script('return [...document.querySelectorAll("button")].filter((b) => b.offsetParent && b.getBoundingClientRect().height < 36).map((b) => b.textContent)')
        assert not small, small
    browser.size(1280, 720)


def contrast_is_enough(stage, browser):
    """WCAG AA for text: 4.5 to 1, light and dark."""
    code = open(os.path.join(os.path.dirname(__file__), 'contrast.js')).read()
    for dark in (False, True):
        browser.size(1280, 720, dark=dark)
        weak = browser.script(code)
        assert not weak, weak
    browser.size(1280, 720)


def pictures(stage, browser):
    browser.press('order')
    said(browser, 'Ordered')
    browser.shot(f'{SHOTS}/page-light.png')
    browser.shot(f'{SHOTS}/page-dark.png', dark=True)
    browser.shot(f'{SHOTS}/page-light-whole.png', whole=True)
    browser.shot(f'{SHOTS}/phone-light.png', 390, 844, phone=True)
    browser.shot(f'{SHOTS}/phone-dark-whole.png', 390, 844, dark=True, phone=True, whole=True)


def button_reset(stage, browser):
    browser.press('reset')
    said(browser, 'All books are empty')
    until(lambda: stage.number('SELECT count(*) FROM shop.orders') < 3000 and browser.way('none') is not None, 'orders begin anew', 60)
    until(lambda: stage.number('SELECT count(*) FROM ledger_unique.entry') > 50, 'consumers go on', 120)
    assert stage.drift('seen-cache') == 0 and stage.drift('unique') == 0
    until(lambda: browser.way('seen-cache') == 0 and browser.way('unique') == 0, 'the page begins anew')


def console_is_quiet_and_nobody_else_was_asked(stage, browser):
    strangers = browser.strangers()
    assert not strangers, strangers
    assert len(browser.asked) > 5
    complaints = browser.complaints()
    assert not complaints, complaints


ALL = [
    page_shows_every_way, amounts_are_those_of_the_database, restart_makes_the_cache_jump, button_redeliver, button_order, button_twice,
    button_bad_client, button_kill_relay, button_pause_relay, buttons_poison_and_release, keyboard_is_enough, it_fits_a_phone,
    contrast_is_enough, pictures, tour_runs_to_its_end, button_broker, button_database, page_survives_kills_without_reload,
    nothing_is_lost_by_all_this, only_our_own_page_may_press, only_loopback_listens, clients_come_and_go_and_memory_stays, button_reset,
    console_is_quiet_and_nobody_else_was_asked,
]
