/**
 * The product's performance goals, each with what it is compared with. Each benchmark declares which goals it decides.
 */

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
    'list of 100 apps (GET /v1/apps) with a JWT',
    'bare Node that writes the same bytes; LXD',
    'rate >= 35 % of bare Node and >= 10 times LXD; <= 5 us of CPU per row',
    'no growth with the number of tenants (10,000 tenants <= 1.2 times the time of 10)',
  ),
  B2: goal(
    'GET of one app with one deployment',
    'bare Node plus a bare SELECT; LXD',
    'median <= 0.4 ms; LXD takes >= 5 times as long',
    'no growth with the number of apps (100,000 apps <= 1.1 times the time of 20)',
  ),
  B3: goal(
    'live list of deployments with 100 and 1,000 VMs',
    "libvirt's getAllDomainStats; LXD",
    'time <= 2 times libvirt; LXD takes >= 20 times as long',
    'linear growth with the number of VMs, without requests to hosts',
  ),
  B4: goal(
    'creating an app (durable commit)',
    'one INSERT by node-pg; LXD',
    'rate >= 30 % of the INSERTs and >= 25 times LXD',
    'no growth with the number of apps (100,000 apps <= 1.3 times the time of 1,000)',
  ),
  B5: goal(
    'durable placement of VMs on 100 hosts',
    "the bare transaction; Ganeti's hspace",
    '>= 1,000 per second, no host oversold, rate >= 50 % of the transaction',
    'little growth with the number of hosts (1,000 hosts <= 1.3 times the time of 10)',
    'no complete run yet because of other load on this machine; before there were stored results: 1,458 per second, no host oversold (compute.md)',
  ),
  B6: goal(
    'deploy until the page answers, image cached',
    'the VM alone, from its process to the same page; the overhead of libvirt',
    'median <= 30 ms more than the VM alone, and <= 0.2 times the overhead of libvirt',
    'no growth with the number of VMs on the host',
  ),
  B7: goal(
    'ending a VM',
    'SIGKILL of the same VMM process; libvirt',
    'time to end the VM <= 25 ms longer than a SIGKILL takes',
    'no growth with the number of VMs',
  ),
  B8: goal(
    'pausing and resuming a VM',
    'QMP stop and cont; libvirt',
    '<= 5 ms each',
    'no growth with the number of VMs',
  ),
  B9: goal(
    'parallel deploys',
    'VMs that an agent alone starts in parallel',
    'rate >= 90 % of the agent alone',
    'linear growth with the number of deploys',
  ),
  B10: goal(
    'wake-up of an app that is scaled to zero',
    'restoring such a VM alone, to the same page',
    '<= 50 ms more than the VM alone, no failed request',
    'no growth with the number of apps scaled to zero (10,000 apps <= 1.3 times the time of 100)',
    'no complete run yet because of other load on this machine',
  ),
  B11: goal(
    'event from its commit to an SSE client',
    'NOTIFY of PostgreSQL; put to watch in etcd; NATS',
    'median <= 2 ms, and not slower than etcd',
    'no growth with the number of open streams',
  ),
  B12: goal(
    'events to 10 to 1,000 SSE subscribers',
    'bare Node that sends the same bytes; NATS',
    'rate >= 50 % of bare Node, <= 30 KiB of memory per subscriber',
    'linear growth with the number of subscribers',
  ),
  B13: goal(
    'authentication of a request',
    'the same handler without authentication',
    'JWT <= 60 us of CPU, access token <= 1.2 times a JWT',
    'no growth with the number of access tokens, up to 1,000,000',
  ),
  B14: goal('GET during a burst of logins', 'GET without logins', 'p99 of GET <= 2 times', '-'),
  B15: goal(
    'refresh of a session',
    'the bare transaction',
    'rate >= 40 % of the transaction',
    'no growth with the number of tokens',
  ),
  B16: goal(
    'full heartbeats of all hosts without changes, 10,000 VMs',
    '-',
    '< 0.5 s of CPU, <= 32 KiB of memory per VM',
    'linear growth with the number of VMs (10,000 VMs <= 12 times 1,000)',
    'no complete run yet because of other load on this machine; before there were stored results: 0.11 s, 12 to 19 KiB per VM (compute.md)',
  ),
  B17: goal(
    'restart of a control plane with 10,000 deployments',
    'the same start with 10 deployments',
    'ready in < 2 s',
    'at most linear growth with the number of deployments',
  ),
  B18: goal(
    'restart of an agent until it has adopted its VMs',
    'connecting to each QMP socket and querying its status',
    '<= 2 times the queries, and < 2 s',
    'linear growth with the number of VMs',
  ),
  B19: goal(
    'heartbeats of 1,000 hosts with 10 VMs each, every second',
    'one batched UPDATE by node-pg',
    '<= 15 % of a core',
    'linear growth with the number of hosts',
  ),
  B20: goal(
    'fetching an image and converting it to a base',
    'the same bytes over HTTP and through tar',
    'rate >= 50 % of the bytes; no work the second time',
    'no growth with the size of the image, for the time per byte',
  ),
  B21: goal(
    'clone of a volume',
    'cp --reflink and sync',
    'time <= 1.5 times cp',
    'no growth with the size of the volume',
  ),
  B22: goal(
    'stored log of a VM to the client',
    'the same bytes from bare Node',
    'rate >= 50 % of bare Node, or >= 200 MiB/s',
    'no growth with the size of the log, for the time per byte',
  ),
  B23: goal(
    'first page of the audit log among 1,000,000 rows',
    '-',
    '<= 20 ms with the exact total',
    'no growth with the number of rows',
    'no complete run yet: inserting its million rows took more than three minutes due to other load on this machine',
  ),
  B24: goal(
    'requests of a tenant beside one that sends 10 times its rate limit',
    'the same without the noisy tenant',
    'p99 <= 2 times, no failed request',
    '-',
  ),
  B25: goal(
    'rejection with 429',
    'an answer of bare Node',
    'rate >= 50 % of bare Node',
    'little growth with the number of rate limit keys (50,000 keys <= 3 times the time of 100)',
  ),
  B26: goal(
    'steps of the simulation (test/simulation)',
    '-',
    '>= 5,000 steps per second and core, 1,000 times real time',
    'linear growth with the number of cores',
  ),
  B27: goal(
    'memory of idle programs',
    '-',
    'control plane <= 120 MiB, agent <= 60 MiB and <= 1 MiB per VM',
    'linear growth with the number of VMs',
  ),
  start: goal(
    'start of mote up until it is ready; mote --version',
    '-',
    'mote up <= 1.5 s with an existing data directory; mote --version <= 100 ms',
    '-',
  ),
  soak: goal('memory under mixed load', '-', 'grows <= 2 MiB in 10 minutes after the warm-up', '-'),
} as const satisfies Readonly<Record<string, Goal>>

export type GoalId = keyof typeof goals
