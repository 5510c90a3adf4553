"""The writing checker: proves whether Valkey kept every write that it acknowledged.

A workload writes unique elements from outside the servers and records each answer; afterwards every
primary and replica is read back, and the judge compares. A test uses it like this:

    recorder = Recorder(tmp_path / "history.jsonl")
    target = ClusterTarget([Address("10.0.0.5", 6379)], Access(password="…"))
    async with Workload(target, recorder, demands=Demands(replicas=1, pause=1.0)) as load:
        await load.acknowledged(each=10)
        with load.during("switchover"):
            await switchover()
        await load.acknowledged(each=10)
    verdict = await load.judge()
    assert verdict.clean, str(verdict)

`PlainTarget(primary)` takes an address, or a callable that says where the primary is now. A stored
history can be judged again: `uv run python -m tests.chaos.judge FILE…`. `test_control.py` shows that
the judge sees loss when there is loss; trust no clean verdict of a checker whose control has not failed.
"""
