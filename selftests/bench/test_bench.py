#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of the benchmark's own logic. Prints TAP."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.dont_write_bytecode = True

import beside_tcp
import charts
import figures
import load
import report
import rounds
import rows
from hosts import ADDRESS, Failed, Layout, Missing
from programs import FloorGso, Turn

BANDWIDTH = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      8672             0.00               4.55   \t\t   0.008671
---------------------------------------------------------------------------------------
"""
LATENCY = """\
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:77:00:01
#, usec
1, 22.5749
2, 22.67
3, 2450.62
---------------------------------------------------------------------------------------
 8       2000          22.57          3748.62      46.31    \t       108.81      \t296.89 \t\t1917.07 \t\t3639.13
"""
STAT = "cpu  {user} 0 {system} {idle} 0 0 {softirq} {steal} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       5       5    0    0    0     0          0         0        5       5    0    0    0     0       0          0
    va: 1859848991  459090    0    0    0     0          0         0  1159869   23686    0    0    0     0       0          0
"""


def turn(row="write-64k", number=1, value=1.0, tree="A", disturbed=False, **more):
    return {"type": "turn", "row": row, "group": "write", "tree": tree, "round": number, "value": value, "unit": "Gbit/s",
            "disturbed": disturbed, **more}


def snapshot(at, worker, ticks, packets=0):
    machine = load.parse_stat(STAT.format(**ticks))
    return load.Snapshot(at=at, cpu={"worker": {"7": worker}}, machine=machine, own=0, packets=packets,
                         wakeups={"worker": {"7": packets}})


def ticks(user=0, system=0, idle=0, softirq=0, steal=0):
    return {"user": user, "system": system, "idle": idle, "softirq": softirq, "steal": steal}


class Figures(unittest.TestCase):
    def test_median_and_quartiles(self):
        self.assertEqual(figures.spread([5, 1, 2, 4, 3]), (3, 2, 4))

    def test_quartiles_between_two_values_are_interpolated(self):
        self.assertEqual(figures.spread([1.0, 2.0]), (1.5, 1.25, 1.75))

    def test_no_values_have_no_spread(self):
        self.assertIsNone(figures.spread([None]))

    def test_jain_of_equal_shares_is_1_and_of_one_winner_1_over_n(self):
        self.assertEqual(figures.jain([3, 3, 3]), 1)
        self.assertEqual(figures.jain([5, 0, 0, 0]), 0.25)

    def test_disturbed_turns_are_left_out(self):
        good, bad = turn(value=2), turn(value=1, disturbed=True)
        self.assertEqual(figures.counted([good, bad]), [good])

    def test_a_row_with_disturbed_turns_only_keeps_them(self):
        self.assertEqual(len(figures.counted([turn(disturbed=True)] * 2)), 2)

    def test_ratios_pair_turns_of_one_round(self):
        mine = [turn(number=1, value=2), turn(number=2, value=9)]
        reference = [turn("top", 2, 3), turn("top", 1, 4), turn("top", 3, 5)]
        self.assertEqual(figures.ratios(mine, reference), [0.5, 3])

    def test_ratios_leave_out_pairs_with_a_disturbed_turn(self):
        mine = [turn(number=1, value=2), turn(number=2, value=9)]
        reference = [turn("top", 1, 4), turn("top", 2, 3, disturbed=True)]
        self.assertEqual(figures.ratios(mine, reference), [0.5])

    def test_percentiles_end_where_samples_do(self):
        self.assertEqual(figures.percentiles(range(101))[-1], [99, 99])


class Perftest(unittest.TestCase):
    def test_message_rate_of_a_bandwidth_program(self):
        self.assertEqual(figures.perftest_bandwidth(BANDWIDTH), 8671)

    def test_samples_of_a_latency_program(self):
        self.assertEqual(figures.perftest_latency(LATENCY), [22.5749, 22.67, 2450.62])

    def test_numbers_of_a_capture(self):
        self.assertEqual(figures.captured("xroce: 1200 packets captured, 34 lost\n"), (1200, 34))

    def test_time_of_a_step_of_cmtime(self):
        self.assertEqual(figures.cmtime_step("create id    :  1.0 2.0 3.0 4.0\nconnect : 9.5 8.0 7.0 95.3\n", "connect"), 95.3)

    def test_median_of_lives(self):
        self.assertEqual(figures.life("destroy 920 2185 14342\nlife 6427 10590 58836\n"), 10590)

    def test_times_of_regions(self):
        self.assertEqual(figures.regions("register 80.5 120.0 300.0\nboth 160 190 420\n"),
                         {"register": (80.5, 120, 300), "both": (160, 190, 420)})

    def test_latency_of_qperf_in_any_unit(self):
        self.assertEqual(figures.qperf_latency("tcp_lat:\n    latency  =  35.8 us\n"), 35.8)
        self.assertEqual(figures.qperf_latency("tcp_lat:\n    latency  =  1.2 ms\n"), 1200)

    def test_output_without_results_is_an_error(self):
        for parse in figures.perftest_bandwidth, figures.perftest_latency, figures.life, figures.regions:
            with self.assertRaises(ValueError):
                parse("Couldn't connect to 10.77.0.1:18515\n")


class Load(unittest.TestCase):
    def between(self, cpu_ns, **grown):
        return load.between(snapshot(0, 0, ticks()), snapshot(10**9, cpu_ns, ticks(**grown), 1000))

    def test_time_of_other_processes_is_what_the_turn_did_not_use(self):
        found = self.between(100 * load.TICK_NS, user=80, system=40, idle=80)
        self.assertAlmostEqual(found.other, 0.1)
        self.assertEqual(found.steal, 0)

    def test_a_turn_with_much_steal_is_disturbed(self):
        self.assertTrue(load.disturbed(self.between(100 * load.TICK_NS, system=100, idle=90, steal=10)))
        self.assertFalse(load.disturbed(self.between(100 * load.TICK_NS, system=100, idle=99, steal=1)))

    def test_a_turn_beside_other_processes_is_disturbed(self):
        self.assertTrue(load.disturbed(self.between(100 * load.TICK_NS, system=150, idle=50)))

    def test_threads_that_begin_or_end_do_not_make_time_negative(self):
        first, last = snapshot(0, 50, ticks()), snapshot(1, 70, ticks())
        first.cpu["worker"]["8"], last.cpu["worker"]["9"] = 1000, 5
        self.assertEqual(load.between(first, last).cpu["worker"], 25)

    def test_processes_that_end_together_are_measured_until_the_first_of_them_ends(self):
        recorder = load.Recorder({}, together=True)
        recorder.snapshots = [snapshot(at, 0, ticks())._replace(cpu={"program": cpu}) for at, cpu in (
            (0, {"7": 1}), (10**9, {"7": 2, "8": 5}), (3 * 10**9, {"7": 3, "8": 25}), (4 * 10**9, {"7": 4}))]
        self.assertEqual(recorder.load().cpu["program"], 21)
        self.assertEqual(recorder.load().seconds, 2)

    def test_packets_of_an_interface(self):
        self.assertEqual(load.parse_net_dev(NET_DEV, "va"), 459090 + 23686)

    def test_processes_are_followed_to_their_descendants(self):
        script = "sleep 60 & echo $!; wait"
        with subprocess.Popen(["sh", "-c", f"sh -c '{script}' & echo $!; wait"], stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as top:
            try:
                middle, last = sorted(int(top.stdout.readline()) for _ in range(2))
                self.assertEqual(load.with_descendants(top.pid), [top.pid, middle, last])
            finally:
                os.killpg(top.pid, signal.SIGKILL)


class Program:
    unit = "Gbit/s"
    sender = "client"

    def __init__(self, results):
        self.results = iter(results)

    def measure(self, hosts, tools):
        value, steal = next(self.results)
        return Turn(value, load.Load(1.0, {"client": 10**9}, 1000, {"client": 0}, 0, steal, 0.0), 500.0)


class Rounds(unittest.TestCase):
    def run_rows(self, *programs, trees=("A",)):
        group = [rows.row(f"row{i}", "group", program, Layout()) for i, program in enumerate(programs)]
        runner = rounds.Runner({tree: "/" for tree in trees}, "/", rounds.Plan(rounds=2, extra=2), lambda line: None)
        runner.hosts_for = lambda row, tree: None
        runner.group("group", group)
        return runner

    def test_rows_are_measured_in_turns(self):
        done = self.run_rows(Program([(1, 0)] * 2), Program([(2, 0)] * 2)).done
        self.assertEqual([(t["row"], t["round"]) for t in done], [("row0", 1), ("row1", 1), ("row0", 2), ("row1", 2)])

    def test_builds_take_turns_and_neither_is_always_first(self):
        done = self.run_rows(Program([(1, 0)] * 4), trees=("A", "B")).done
        self.assertEqual([t["tree"] for t in done], ["A", "B", "B", "A"])

    def test_a_row_with_a_disturbed_turn_gets_another_round(self):
        done = self.run_rows(Program([(1, 0.5), (1, 0), (1, 0)]), Program([(2, 0)] * 2)).done
        self.assertEqual([t["row"] for t in done], ["row0", "row1", "row0", "row1", "row0"])

    def test_further_rounds_are_bounded(self):
        self.assertEqual(len(self.run_rows(Program([(1, 0.5)] * 9)).done), 4)

    def test_a_failed_row_is_not_tried_again_and_others_go_on(self):
        class Broken(Program):
            def measure(self, hosts, tools):
                next(self.results)
                raise Failed("no")
        runner = self.run_rows(Broken([()]), Program([(2, 0)] * 2))
        self.assertEqual(runner.failed, {("row0", "A"): "no"})
        self.assertEqual(len(runner.done), 2)

    def test_a_row_of_which_the_build_lacks_something_is_skipped_without_further_rounds(self):
        class Lacking(Program):
            def measure(self, hosts, tools):
                next(self.results)
                raise Missing("no library")
        runner = self.run_rows(Lacking([()]), Program([(2, 0)] * 2))
        self.assertEqual((runner.skipped, runner.failed), ({("row0", "A"): "no library"}, {}))
        self.assertEqual(len(runner.done), 2)

    def test_processor_time_is_divided_by_packets_and_by_messages(self):
        line = self.run_rows(Program([(1, 0)] * 2)).done[0]
        self.assertEqual(line["packet_ns"]["client"], 10**6)
        self.assertEqual(line["message_ns"]["client"], 2 * 10**6)


class Floors(unittest.TestCase):
    def measure(self, program, output):
        hosts = unittest.mock.Mock()
        with unittest.mock.patch("programs.alone", return_value=(output, None)) as alone:
            found = program.measure(hosts, pathlib.Path("/"))
        return found, list(alone.call_args.args[2])

    def test_processor_time_of_a_floor_is_that_of_its_workers(self):
        found, _ = self.measure(FloorGso(4096), "floor\t61722\t1e6\t700\t600\t50\t67.0\t0\t0\n")
        line = turn("floor-gso", 1, found.value, **found.more)
        self.assertEqual(report.costs([line], "packet_ns"), {"sender worker": 700, "receiver worker": 600})
        self.assertAlmostEqual(found.value, 32.768)

    def test_a_floor_with_faults_tells_frames_and_gaps(self):
        found, command = self.measure(FloorGso(4096, drop=10), "floor\t61722\t1e6\t700\t600\t50\t68.5\t57\t23000\n")
        self.assertEqual(command[-4:], [65536, 10, 0, 0])
        self.assertEqual((found.more["frames"], found.more["in_flight"], found.more["gap_us"]), (68.5, 57, 23))


class BesideTcp(unittest.TestCase):
    def measure(self, program, build="/"):
        hosts = unittest.mock.Mock(build=pathlib.Path(build), gid={"a": "3", "b": "4"})
        with unittest.mock.patch("beside_tcp.pair", return_value=("", "250000 55.5 80.1\n", None)) as pair:
            found = program.measure(hosts, pathlib.Path("/"))
        _, server, client = pair.call_args.args
        return found, [str(word) for word in server], [str(word) for word in client], pair.call_args.kwargs

    def test_both_sides_have_the_same_options_but_for_gid_and_address(self):
        _, server, client, how = self.measure(beside_tcp.Reply("daemon", 16, 1, True))
        self.assertEqual((server[1:3], client[1:3]), (["-g", "3"], ["-g", "4"]))
        self.assertEqual([*server[3:], ADDRESS["a"]], client[3:])
        self.assertEqual(how, {"rdma": True, "env": {"XROCE_PATH": "daemon"}})

    def test_tcp_is_without_xroce_and_each_side_has_a_processor(self):
        _, server, client, how = self.measure(beside_tcp.Reply("tcp", 16, 1, False))
        self.assertEqual(how, {"rdma": False, "env": {}})
        self.assertEqual(client[:3], ["taskset", "-c", "0"])
        self.assertIn("-t", server)
        self.assertNotIn("-e", server)

    def test_rate_and_payload_of_commands(self):
        found, *_ = self.measure(beside_tcp.Block("tcp", 4096, 32, False))
        self.assertEqual((found.value, found.more["median"], found.more["p99"]), (250, 55.5, 80.1))
        self.assertAlmostEqual(found.more["gbits"], 8.192)

    def test_the_direct_path_is_skipped_if_the_build_lacks_it(self):
        with self.assertRaises(Missing):
            self.measure(beside_tcp.Block("direct", 4096, 32, False), "/nonexistent")


class Rows(unittest.TestCase):
    def test_names_are_unique_and_references_exist(self):
        names = [r.name for r in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for r in rows.ROWS:
            for aim in r.aims:
                self.assertIn(aim.reference or r.name, names)

    def test_a_row_is_selected_with_its_references_before_it(self):
        found = rows.select(rows.ROWS, "write-64k")
        self.assertEqual([r.name for r in found["write"]], ["frames-4170", "floor-gso", "floor-gso-writes", "tcp-64k", "write-64k"])

    def test_a_row_with_faults_is_selected_with_that_without_and_with_the_floor_with_the_same_faults(self):
        found = rows.select(rows.ROWS, "loss-write-8m-drop10")
        self.assertEqual([r.name for r in found["loss-write"]],
                         ["loss-write-8m", "floor-loss-8m-drop10", "loss-write-8m-drop10"])

    def test_the_name_of_a_group_selects_the_group_only(self):
        self.assertEqual(list(rows.select(rows.ROWS, "private")), ["private"])

    def test_the_name_of_a_family_selects_its_groups_with_tcp_beside_each_row(self):
        found = rows.select(rows.ROWS, "programs")
        self.assertEqual(list(found), [f"programs/{name}" for name in ("reply-events", "reply-polled", "block", "alltoall")])
        for group in found.values():
            self.assertEqual([r.name.rsplit("-", 1)[1] for r in group], ["tcp", "direct", "daemon"] * (len(group) // 3))

    def test_rows_by_xdp_bring_tcp_as_reference(self):
        found = rows.select(rows.ROWS, "alltoall-8-xdp")
        self.assertEqual([r.name for r in found["programs-xdp/alltoall"]], ["alltoall-8-tcp", "alltoall-8-xdp"])

    def test_floors_bring_tcp_as_reference(self):
        found = rows.select(rows.ROWS, "reply-16x1-events-floor")
        self.assertEqual([r.name for r in found["programs-floor/reply-events"]], ["reply-16x1-events-tcp", "reply-16x1-events-floor"])

    def test_several_words_select_several_groups(self):
        self.assertEqual(list(rows.select(rows.ROWS, "private latency")), ["private", "latency"])

    def test_without_a_name_every_row_is_selected_that_is_not_optional(self):
        found = {r.name for group in rows.select(rows.ROWS, "").values() for r in group}
        self.assertEqual(found, {r.name for r in rows.ROWS if not r.optional})

    def test_an_unknown_name_is_an_error(self):
        with self.assertRaises(rows.UnknownRow):
            rows.select(rows.ROWS, "nothing-like-it")


class Report(unittest.TestCase):
    def setUp(self):
        costs = {"packet_ns": {"client worker": 1300.0, "server worker": 400.0}, "message_ns": {"client": 2000.0}}
        self.results = report.Results(
            [{"type": "run", "conditions": "2 processors", "date": "2026-01-01"}]
            + [turn("frames-4170", n, 10.0) for n in (1, 2)]
            + [turn("write-64k", n, 8.0, sender="client", **costs) for n in (1, 2)]
            + [turn("write-4k", 1, 1.0, disturbed=True)]
            + [turn("latency-send", 1, 5.0, percentiles=[[1, 4], [50, 5], [99, 9]])])

    def test_aims_are_judged_by_the_ratio_to_the_reference(self):
        text = report.text(self.results)
        self.assertIn("0.80 of frames-4170 (aim >= 0.7: met)", text)

    def test_the_ratio_of_another_figure_than_the_value_names_it(self):
        self.results.turns += [turn("alltoall-8-tcp", 1, 2.0, median=10.0), turn("alltoall-8-daemon", 1, 4.0, median=35.0)]
        self.assertIn("2.00 of alltoall-8-tcp; 3.50 of alltoall-8-tcp (us median)", report.text(self.results))

    def test_no_aim_is_judged_by_disturbed_turns(self):
        for t in self.results.of("write-64k", "A"):
            t["disturbed"] = True
        self.assertIn("0.80 of frames-4170 (aim >= 0.7: not judged)", report.text(self.results))

    def test_rows_show_processor_time_and_turns(self):
        line = next(x for x in report.text(self.results).splitlines() if "write-64k" in x)
        for part in "8.00 [8.00, 8.00] Gbit/s", "1300, 400", "2.00, -", "2 of 2":
            self.assertIn(part, line)

    def test_the_report_says_how_many_turns_were_disturbed(self):
        self.assertIn("1 of 6 turns were disturbed", report.text(self.results))
        self.assertIn("ALL 1 disturbed", report.text(self.results))

    def test_two_builds_are_compared_round_by_round(self):
        self.results.turns += [turn("write-64k", n, 12.0, "B") for n in (1, 2)]
        self.assertIn("B/A 1.50 [1.50, 1.50]", report.text(self.results))

    def test_a_row_that_failed_with_the_other_build_has_no_ratio(self):
        self.results.turns += [turn("read-64k", n, 12.0, "B") for n in (1, 2)]
        self.assertIn("B/A unknown", report.text(self.results))

    def test_a_failure_is_reported(self):
        self.results.failures.append({"row": "read-64k", "tree": "A", "text": "no device"})
        self.assertIn("read-64k A FAILED: no device", report.text(self.results))

    def test_skipped_rows_are_reported_with_their_reason_once(self):
        self.results.skips += [{"row": name, "tree": "A", "text": "no library"} for name in ("a-direct", "b-direct")]
        self.assertIn("2 rows were skipped, no library: a-direct b-direct", report.text(self.results))

    def test_the_report_has_stolen_time(self):
        self.results.turns[0]["steal"], self.results.turns[1]["steal"] = 0.01, 0.03
        self.assertIn("steal: 2.0% in the median turn, 3.0% at most", report.text(self.results))

    def test_the_sender_of_a_read_is_the_server(self):
        self.assertEqual(report.by_direction({"server worker": 1, "client": 2}, "server"),
                         {"sender worker": 1, "receiver": 2})

    def test_markdown_has_as_many_cells_in_each_line(self):
        lines = report.markdown(self.results).splitlines()
        self.assertEqual({line.count("|") for line in lines}, {7})
        self.assertEqual(len(lines), 2 + 4)

    def test_figures_replace_what_is_between_the_marks(self):
        page = "a\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nb\n"
        self.assertEqual(report.between_marks(page, r"new \1"), page.replace("old", r"new \1"))

    def test_pictures_are_well_formed_and_label_both_axes(self):
        for name, labels in ("throughput", ("message size", "payload, Gbit/s")), ("latency", ("percentile of samples", "us (")):
            root = xml.etree.ElementTree.fromstring(charts.pictures(self.results)[name])
            texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
            for label in labels:
                self.assertTrue(any(t.startswith(label) for t in texts), label)

    def test_points_are_within_the_picture(self):
        root = xml.etree.ElementTree.fromstring(charts.pictures(self.results)["throughput"])
        for line in root.iter("{http://www.w3.org/2000/svg}polyline"):
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                self.assertTrue(charts.LEFT <= x <= charts.WIDTH - charts.RIGHT)
                self.assertTrue(charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM)


class Tap(unittest.TestResult):
    def report(self, test, text=None):
        name = test.id().split(".", 1)[1].replace("test_", "").replace("_", " ").replace(".", ": ")
        print(f"{'not ok' if text else 'ok'} {self.testsRun} - {name}")
        for line in (text or "").splitlines():
            print(f"# {line}")

    def addSuccess(self, test):
        self.report(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, self.errors[-1][1])


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = Tap()
    suite.run(result)
    print(f"1..{result.testsRun}")
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
