"""What the test bed is made of: its folder, its ports, its configuration files and its accounting.

Eight nodes of eight GPUs each (six of A100, two of H100) on one machine, with partitions, QOS, accounts and users
that give every limit something to bite on. No GPU is needed: the devices are copies of /dev/null.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

DEFAULT_DIR = Path("/opt/slurmbed")
CLUSTER = "halcyon"
NODES = tuple(f"gpu{n:02d}" for n in range(1, 9))
PARTITIONS = ("interactive", "train", "key", "inference", "low")
QOS = ("normal", "low", "interactive", "train", "key", "inference")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # not every caller's has the sbin folders
USERS = ("opsadmin", "opsoper", "vcoord", "tomas", "mira", "anouk", "kenji", "svcinfer")


class BedError(RuntimeError):
    """The bed could not do what was asked; the text says which part, and ends with the log lines that tell why."""


@dataclass(frozen=True)
class Bed:
    """Paths and ports of one bed. Two beds live side by side when folder, port base and SSH port differ."""

    dir: Path
    base: int
    ssh_port: int

    @property
    def slurm_conf(self) -> Path:
        return self.dir / "etc" / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.dir / "run" / "munge" / "munge.socket"

    @property
    def mysql_socket(self) -> Path:
        return self.dir / "run" / "mysql" / "mysqld.sock"

    @property
    def ssh_config(self) -> Path:
        return self.dir / "ssh" / "config"

    @property
    def ssh_key(self) -> Path:
        return self.dir / "ssh" / "id_bed"

    @property
    def known_hosts(self) -> Path:
        return self.dir / "ssh" / "known_hosts"

    @property
    def env(self) -> dict[str, str]:
        """Environment of every daemon and client of this bed."""
        return {
            "PATH": PATH,
            "SLURM_CONF": str(self.slurm_conf),
            "LANG": "C.UTF-8",
        }


def bed_at(folder: Path | str = DEFAULT_DIR) -> Bed:
    """The bed in `folder`; ports come from SLURMBED_PORT_BASE (17000) and SLURMBED_SSH_PORT (2222)."""
    return Bed(
        dir=Path(folder),
        base=int(os.environ.get("SLURMBED_PORT_BASE", "17000")),
        ssh_port=int(os.environ.get("SLURMBED_SSH_PORT", "2222")),
    )


@functools.cache
def slurm_version() -> tuple[int, int]:
    """Major and minor of the installed Slurm, (22, 5) for 22.05."""
    asked = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True, env={"PATH": PATH})
    text = asked.stdout
    major, minor, *_ = text.split()[-1].split(".")
    return int(major), int(minor)


SLURM_CONF = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge_socket}
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={dir}/state/jwt_hs256.key

StateSaveLocation={dir}/state
SlurmctldPidFile={dir}/run/slurmctld.self.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdSpoolDir={dir}/spool/%n
SlurmdPidFile={dir}/run/slurmd.%n.self.pid
SlurmdLogFile={dir}/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info

# one machine plays every node: nothing that needs cgroups, systemd or real hardware
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5
JobAcctGatherParams=OverMemoryKill
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
PropagateResourceLimits=NONE
LaunchParameters=use_interactive_step
RebootProgram=/bin/true
MailProg=/bin/true

# short timers, so that tests see transitions in seconds
SlurmctldTimeout=30
SlurmdTimeout=20
MessageTimeout=10
InactiveLimit=0
KillWait=3
MinJobAge=600
CompleteWait=0
BatchStartTimeout=10
TCPTimeout=4

SchedulerType=sched/backfill
SchedulerParameters=bf_interval=3,bf_continue,bf_max_job_test=500,sched_min_interval=500000,batch_sched_delay=1,preempt_youngest_first,enable_user_top
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
PreemptType=preempt/qos
PreemptMode=REQUEUE
JobRequeue=1
MaxArraySize=1001
MaxJobCount=20000

PriorityType=priority/multifactor
PriorityCalcPeriod=1
PriorityDecayHalfLife=1-0
PriorityMaxAge=1-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=500
PriorityWeightPartition=2000
PriorityWeightQOS=5000
PriorityWeightTRES=gres/gpu=500

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
# with SlurmDBD this is not a password but the munge socket its clients use (AuthInfo is not read for that)
AccountingStoragePass={munge_socket}
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100
AccountingStoreFlags=job_comment,job_script,job_env

NodeName=DEFAULT CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 State=UNKNOWN
{nodes}
PartitionName=DEFAULT State=UP DefMemPerCPU=1000 DefaultTime=01:00:00 OverSubscribe=NO
PartitionName=interactive Nodes=gpu01 MaxTime=04:00:00 PriorityTier=20 PriorityJobFactor=800
PartitionName=train Nodes=gpu[01-08] Default=YES MaxTime=2-00:00:00 PriorityTier=10 PriorityJobFactor=500
PartitionName=key Nodes=gpu[01-08] MaxTime=7-00:00:00 PriorityTier=30 PriorityJobFactor=1000 AllowQos=key AllowAccounts=research,vision
PartitionName=inference Nodes=gpu[07-08] MaxTime=UNLIMITED PriorityTier=25 PriorityJobFactor=900
PartitionName=low Nodes=gpu[01-08] MaxTime=1-00:00:00 PriorityTier=1 PriorityJobFactor=1
"""

GRES_CONF = """\
AutoDetect=off
NodeName=gpu[01-06] Name=gpu Type=a100 File={dir}/gres/nvidia[0-7]
NodeName=gpu[07-08] Name=gpu Type=h100 File={dir}/gres/nvidia[0-7]
"""

SLURMDBD_CONF = """\
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket={munge_socket}
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={dir}/state/jwt_hs256.key
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={mysql_port}
StorageUser=slurm
StoragePass=slurmbed
StorageLoc=slurm_acct_db
PidFile={dir}/run/slurmdbd.self.pid
LogFile={dir}/log/slurmdbd.log
DebugLevel=info
"""

# MaxSessions stays at OpenSSH's default of 10: a client that opens more channels on one connection must cope.
SSHD_CONFIG = """\
ListenAddress 127.0.0.1
Port {ssh_port}
HostKey {dir}/ssh/host_ed25519
AuthorizedKeysFile {dir}/ssh/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
MaxStartups 100
UseDNS no
PrintMotd no
PrintLastLog no
AllowUsers {users}
SetEnv SLURM_CONF={slurm_conf}
Subsystem sftp internal-sftp
"""

SSH_HOST = """\
Host slurmbed-{user}
    HostName 127.0.0.1
    Port {ssh_port}
    User {user}
    IdentityFile {key}
    IdentitiesOnly yes
    UserKnownHostsFile {known_hosts}
    StrictHostKeyChecking yes
    BatchMode yes
"""

ALL_QOS = "normal,low,interactive,train,key,inference"
ALL_USERS = "opsadmin,opsoper,vcoord,mira,tomas,anouk,kenji,svcinfer"

# Before slurmctld's first start: from some version on it refuses partitions that name an unknown QOS.
ACCOUNTING_BEFORE = f"""\
add qos low,interactive,train,key,inference
modify qos where name=normal set Priority=100
modify qos where name=low set Priority=0 PreemptMode=requeue
modify qos where name=interactive set Priority=800 MaxWall=04:00:00 MaxJobsPerUser=2
modify qos where name=train set Priority=500 Preempt=low
modify qos where name=key set Priority=1000 Preempt=low,train
modify qos where name=inference set Priority=900 Preempt=low
add account research Description=research Organization=lab Fairshare=60
add account vision,language Parent=research Description=team Organization=lab Fairshare=30
add account product Description=product Organization=lab Fairshare=40
modify account where name=research,vision,language,product set QOS={ALL_QOS}
add user opsadmin Account=research AdminLevel=Administrator
add user opsoper Account=research AdminLevel=Operator
add user vcoord,tomas Account=vision
add user mira Account=vision,language DefaultAccount=vision
add user anouk,kenji Account=language
add user svcinfer Account=product
add coordinator Account=vision Names=vcoord
modify user where name={ALL_USERS} set QOS={ALL_QOS}
modify user where name={ALL_USERS} set DefaultQOS=normal
"""

# After it: slurmctld's first start is what registers the TRES gres/gpu.
ACCOUNTING_AFTER = """\
modify qos where name=interactive set MaxTRESPerUser=gres/gpu=2
modify qos where name=train set GrpTRES=gres/gpu=24
modify qos where name=inference set GrpTRES=gres/gpu=8
modify account where name=vision set GrpTRES=gres/gpu=20
modify user where name=tomas account=vision set GrpTRES=gres/gpu=4
"""


def _node_line(bed: Bed, index: int) -> str:
    kind, weight = ("a100", 10) if index <= 6 else ("h100", 20)
    port = bed.base + 100 + index
    return f"NodeName=gpu{index:02d} NodeAddr=127.0.0.1 Port={port} Gres=gpu:{kind}:8 Feature={kind},ib Weight={weight}"


def files(bed: Bed) -> dict[str, str]:
    """Every configuration file of the bed, path below its folder to content."""
    values = {
        "cluster": CLUSTER,
        "dir": bed.dir,
        "host": socket.gethostname().split(".")[0],
        "munge_socket": bed.munge_socket,
        "slurm_conf": bed.slurm_conf,
        "ctld_port": bed.base + 17,
        "dbd_port": bed.base + 19,
        "mysql_port": bed.base + 306,
        "ssh_port": bed.ssh_port,
        "users": " ".join(USERS),
        "nodes": "\n".join(_node_line(bed, n) for n in range(1, 9)),
    }
    # 22.05 knows no `disabled`, and its autodetection dies where no cgroup file system is mounted.
    cgroup = "CgroupPlugin=disabled\n" if slurm_version() >= (23, 2) else "CgroupPlugin=cgroup/v1\n"
    hosts = (
        SSH_HOST.format(user=user, ssh_port=bed.ssh_port, key=bed.ssh_key, known_hosts=bed.known_hosts)
        for user in USERS
    )
    return {
        "etc/slurm.conf": SLURM_CONF.format(**values),
        "etc/gres.conf": GRES_CONF.format(**values),
        "etc/cgroup.conf": cgroup,
        "etc/slurmdbd.conf": SLURMDBD_CONF.format(**values),
        "ssh/sshd_config": SSHD_CONFIG.format(**values),
        "ssh/config": "\n".join(hosts),
    }
