"""A Slurm cluster of one node, whose daemons and files are removed at the end. Requires root."""

import os
import shutil
import socket
import subprocess
import time

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue"]

# proctrack/linuxproc and task/none work without control groups, which containers often lack.
CONFIG = """
ClusterName=moec
SlurmctldHost={node}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
CryptoType=crypto/munge
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MpiDefault=none
KillWait=5
SchedulerParameters=sched_interval=1
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def missing():
    """Returns why a cluster cannot be started; empty: it can."""
    if os.geteuid() != 0:
        return "only root can start Slurm's daemons"
    return ", ".join(name for name in PROGRAMS if not shutil.which(name))


class SlurmCluster:
    def __init__(self, folder):
        self.folder = folder
        for name in ("spool", "state", "log", "run"):
            (folder / name).mkdir(parents=True)
        for path in (folder, folder / "run"):
            path.chmod(0o711)  # munged refuses a socket that other users cannot reach
        node = socket.gethostname().split(".")[0]
        config = folder / "slurm.conf"
        config.write_text(CONFIG.format(folder=folder, node=node, cpus=os.cpu_count(), controller=free_port(),
                                        daemon=free_port()))
        self.environment = {**os.environ, "SLURM_CONF": str(config)}
        try:
            self.start(node)
        except BaseException:
            self.stop()
            raise

    def start(self, node):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        run = self.folder / "run"
        # --force: munged otherwise refuses a socket folder that root owns.
        self.call("munged", "--force", f"--key-file={key}", f"--socket={run}/munge.socket",
                  f"--pid-file={run}/munged.pid", f"--log-file={self.folder}/log/munged.log",
                  f"--seed-file={run}/munged.seed")
        for daemon in ("slurmctld", "slurmd"):
            self.call(daemon, "-f", self.environment["SLURM_CONF"])
        self.wait_until(lambda: "State=IDLE" in self.call("scontrol", "show", "node", node, check=False), 60)

    def call(self, *words, check=True, **environment):
        done = subprocess.run([str(word) for word in words], env={**self.environment, **environment}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}\n{self.logs()}"
        return done.stdout

    def logs(self):
        return "\n".join(path.read_text()[-2000:] for path in sorted((self.folder / "log").glob("slurm*.log")))

    def submit(self, *words, **environment):
        """Returns the job's number."""
        return self.call("sbatch", "--parsable", *words, **environment).strip()

    def states(self, job):
        """Returns the states of a job's tasks."""
        shown = self.call("scontrol", "show", "job", job, check=False).split()
        return [word.removeprefix("JobState=") for word in shown if word.startswith("JobState=")]

    def wait_for(self, job, seconds=120):
        """Waits for the end of all tasks and returns their states."""
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
        self.wait_until(lambda: self.states(job) and set(self.states(job)) <= ended, seconds)
        return self.states(job)

    def wait_until(self, holds, seconds):
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{self.call('squeue', check=False)}\n{self.logs()}"
            time.sleep(0.2)

    def stop(self):
        for daemon in ("slurmd", "slurmctld", "munged"):
            path = self.folder / f"run/{daemon}.pid"
            if path.exists() and path.read_text().strip():
                pid = int(path.read_text())
                os.kill(pid, 15)
                while os.path.exists(f"/proc/{pid}"):
                    time.sleep(0.05)
