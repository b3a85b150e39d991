"""Asks a Spark cluster for the slowest calls, kills a worker in the middle, and compares the answers.

usage: lake_spark.py MASTER LAKE QUERY.sql WORKER_PID

Prints the seconds of the queries. Exits with 1 if an answer is another one than the first.
"""

import os
import signal
import subprocess
import sys
import threading
import time

from pyspark.sql import SparkSession


def main(master, lake, query_file, worker):
    spark = SparkSession.builder.master(master).getOrCreate()
    with open(query_file) as file:
        query = file.read()
    spark.read.parquet(os.path.join(lake, "slice")).createOrReplaceTempView("slice")

    def ask():
        start = time.monotonic()
        rows = [tuple(row) for row in spark.sql(query).collect()]
        return rows, time.monotonic() - start

    first, cold = ask()
    _, warm = ask()
    killer = Killer(spark, int(worker))
    killer.start()
    after_kill, killed = ask()
    killer.join()
    again, alone = ask()
    print(f"Spark, p99 by name, first query: {cold:.2f} s")
    print(f"Spark, p99 by name, second query: {warm:.2f} s")
    print(f"Spark, p99 by name, worker killed after {killer.done} of {killer.total} tasks: {killed:.2f} s")
    print(f"Spark, p99 by name, one worker left: {alone:.2f} s")
    spark.stop()
    if not killer.total:
        sys.exit("the worker was not killed in the middle of a query: give more traces")
    if not first == after_kill == again:
        sys.exit(f"the answers differ: {first}, with a killed worker {after_kill}, then {again}")
    print("the answers are the same")


class Killer(threading.Thread):
    """Kills a worker and its executors when a quarter of the tasks of a stage are done."""

    def __init__(self, spark, worker):
        super().__init__()
        self.status = spark.sparkContext.statusTracker()
        self.worker = worker
        self.done = self.total = 0

    def run(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for stage in self.status.getActiveStageIds():
                info = self.status.getStageInfo(stage)
                if info and info.numTasks > 4 and info.numTasks > info.numCompletedTasks >= info.numTasks // 4:
                    self.done, self.total = info.numCompletedTasks, info.numTasks
                    return self.kill()
            time.sleep(0.002)

    def kill(self):
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.worker)], capture_output=True, text=True)
        for process in [self.worker, *map(int, children.stdout.split())]:
            os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
