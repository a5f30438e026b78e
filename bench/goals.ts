/** The product's performance goals, each with what it is compared with. Benchmarks declare which goals they decide. */

export interface Goal {
  readonly work: string
  readonly beside: string
  readonly goal: string
  readonly growth: string
  /** Why there is no stored result for the goal, although a benchmark covers it. */
  readonly notRun?: string
}

const goal = (work: string, beside: string, goal: string, growth = '-', notRun?: string): Goal => ({
  work,
  beside,
  goal,
  growth,
  ...(notRun === undefined ? {} : { notRun }),
})

export const goals = {
  B1: goal(
    'GET /v1/apps, 100 apps, JWT',
    'bare Node with the same bytes; LXD',
    '>= 35 % of bare Node, >= 10x LXD, <= 5 us of CPU per row',
    'flat in tenants (10 -> 10,000: <= 1.2x)',
  ),
  B2: goal(
    'GET one app, one deployment',
    'bare Node; PG select; LXD',
    'p50 <= 0.4 ms, >= 5x LXD',
    'flat in rows (<= 1.1x at 100,000)',
  ),
  B3: goal(
    'live list of deployments, 100 and 1,000 VMs',
    "libvirt's getAllDomainStats; LXD",
    '<= 2x libvirt, >= 20x LXD',
    'linear in rows, no requests to hosts',
  ),
  B4: goal(
    'POST app, rule (durable)',
    'one insert by node-pg; LXD',
    '>= 30 % of the insert rate, >= 25x LXD',
    'flat in rows (<= 1.3x at 100,000)',
  ),
  B5: goal(
    'durable placement, 100 hosts',
    "the bare transaction; Ganeti's hspace",
    '>= 1,000/s, none oversold, >= 50 % of the transaction',
    '<= 1.3x from 10 to 1,000 hosts',
    'no complete run yet because of other load on this machine; before there were stored results: 1,458 a second, none oversold (compute.md)',
  ),
  B6: goal(
    'deploy to VM running, image warm',
    'the VM alone, from its process to the same page; the overhead of libvirt',
    'overhead p50 <= 30 ms, <= 0.2x libvirt',
    'flat in VMs of a host',
  ),
  B7: goal('stop a VM', 'SIGKILL of the same process; libvirt', '<= 25 ms over it', 'flat'),
  B8: goal('pause, resume', 'QMP stop and cont; libvirt', '<= 5 ms', 'flat'),
  B9: goal('parallel deploys', 'raw spawns at the same parallelism', '>= 90 % of the raw rate', 'linear'),
  B10: goal(
    'wake of an app that is scaled to zero',
    'the restore of such a VM alone, to the same page',
    'overhead <= 50 ms, no failed request',
    'flat in apps scaled to zero (<= 1.3x at 10,000)',
    'no complete run yet because of other load on this machine',
  ),
  B11: goal(
    'commit to SSE client',
    'PG NOTIFY; etcd put to watch; NATS',
    'p50 <= 2 ms and <= etcd',
    'flat in open streams',
  ),
  B12: goal(
    'SSE fan-out, 10 to 1,000 subscribers',
    'bare Node SSE, same bytes; NATS',
    '>= 50 % of bare Node, <= 30 KiB a subscriber',
    'linear in matching subscribers',
  ),
  B13: goal('authentication', 'the same handler without', 'JWT <= 60 us, PAT <= 1.2x JWT', 'flat in tokens to 1 M'),
  B14: goal('burst of logins', 'GET when idle', 'p99 of GET <= 2x', '-'),
  B15: goal('refresh rotation', 'the bare update transaction', '>= 40 %', 'flat'),
  B16: goal(
    'full heartbeats of all hosts without changes, 10,000 VMs',
    '-',
    '< 0.5 s, <= 32 KiB each',
    'linear: t(10k)/t(1k) <= 12',
    'no complete run yet because of other load on this machine; before there were stored results: 0.11 s, 12 to 19 KiB each (compute.md)',
  ),
  B17: goal('control plane restart to ready, 10,000 deployments', 'empty database', '< 2 s', 'linear'),
  B18: goal(
    'agent restart, adopts its VMs',
    'connect and query-status of each QMP socket',
    '<= 2x raw, < 2 s',
    'linear',
  ),
  B19: goal(
    'heartbeats of 1,000 hosts with 10 VMs each, every second',
    'one batched update by node-pg',
    '<= 15 % of a core',
    'linear',
  ),
  B20: goal(
    'image fetch and unpack',
    'the same bytes by HTTP; tar',
    '>= 50 % of the pull, second time nothing',
    'flat',
  ),
  B21: goal('volume clone', 'cp --reflink and sync', '<= 1.5x', 'not in the size'),
  B22: goal('logs of a VM to the client', 'the same file over a socket', '>= 50 % of it, or 200 MiB/s', 'flat'),
  B23: goal(
    'first page of the audit log, 1 M rows',
    '-',
    '<= 20 ms with its exact total',
    'flat',
    'no complete run yet: inserting its million rows took more than three minutes due to other load on this machine',
  ),
  B24: goal('a noisy tenant at 10x its rate limit', 'the same without it', 'p99 of others <= 2x, no errors', '-'),
  B25: goal('rejection with 429', 'bare Node', '>= 50 % of its rate', 'flat in keys'),
  B26: goal('simulation', '-', '>= 5,000 steps/s of a core, 1,000 times real time', 'linear'),
  B27: goal('memory at rest', '-', 'control <= 120 MiB, agent <= 60 MiB, <= 1 MiB a VM', 'linear'),
  start: goal('mote up to ready; mote --version', '-', '<= 1.5 s on a warm directory; <= 100 ms', '-'),
  soak: goal('memory under mixed load', '-', 'grows <= 2 MiB in 10 minutes after the warm-up', '-'),
} as const satisfies Readonly<Record<string, Goal>>

export type GoalId = keyof typeof goals
