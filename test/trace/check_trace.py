"""check_trace.py FILE...: checks that viewers can open each trace, and that each keeps the library's promises."""
import json
import os
import sys

KEYS = {'X': {'name', 'cat', 'ts', 'dur', 'pid', 'tid', 'args'}, 'i': {'name', 'cat', 's', 'ts', 'pid', 'tid', 'args'},
        'M': {'name', 'pid', 'args'}}
FIRST_DEVICE = 1 << 24


def load(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    closed = text.endswith(']\n')  # missing after a crash
    return json.loads(text if closed else text + ']'), closed


def check(path):
    events, closed = load(path)
    ends = {}
    queued = {}
    last = {}
    for event in events:
        assert KEYS[event['ph']] <= event.keys(), event
        assert event.get('ts', 0) >= 0 and event.get('dur', 0) >= 0, event
        if event.get('cat') == 'transfer':
            args = event['args']
            assert (event['pid'] >= FIRST_DEVICE) == (args['clock'] == 'device'), event
        if event['ph'] == 'X' and event['pid'] >= FIRST_DEVICE:
            track = (event['pid'], event['tid'])
            assert event['ts'] >= ends.get(track, 0) - 0.002, ('overlap', event)
            ends[track] = event['ts'] + event['dur']
            # A stream's transfers run in the order in which a thread queues them. Their times on the track may be
            # adjusted, so the times of queueing are compared as well.
            queue = (*track, args['thread'])
            assert args['queued'] >= queued.get(queue, 0), ('order', event)
            queued[queue] = args['queued']
        if event.get('cat') == 'head':
            who = event['args']['object']
            before = last.get(who, event['args']['before'])
            if 'bytes' in event['args']: # of a part of the object
                before = event['args']['before']
                last.pop(who, None)
            else:
                last[who] = event['args']['after']
            assert before == event['args']['before'] != event['args']['after'], event
    assert not closed or events[-1]['name'] == 'end of the trace'
    assert not closed or events[-1]['args']['events_lost'] == 0
    return len(events)


total = sum(check(path) for path in sys.argv[1:])
print(f'{len(sys.argv) - 1} traces, {total} events')
assert len(sys.argv) > 1 and total > 0 and all(os.path.getsize(path) > 0 for path in sys.argv[1:])
