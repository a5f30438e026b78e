/**
 * Compares PostgreSQL in a gVisor VM with PostgreSQL on the host: runs pgbench where the server runs, over the
 * server's Unix socket.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, cp, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { run } from '../src/lib/exec.ts'
import { stackImage } from '../test/stacks/image.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { startBenchCloud } from './cloud.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 3
/** Scale factor of pgbench: 150 MiB of rows. */
const scale = 10
const bin = '/usr/lib/postgresql/15/bin'
const nobody = 65_534
/** vCPUs of the VM: as many as this computer has processors, but at most 2. The server on the host is not limited. */
const vcpus = availableParallelism() > 1 ? 2 : 1

/** Runs a shell script where the server runs: in the VM or on the host. @returns the script's output */
type Shell = (script: string) => Promise<string>

/** Returns a shell script that creates an empty database cluster in the directory and runs its server. */
const serve = (dir: string, listen: string) => `set -e
export PGHOST=${dir}
${bin}/initdb -D ${dir}/data -A trust -U postgres > /dev/null
exec ${bin}/postgres -D ${dir}/data -k ${dir} -c "listen_addresses=${listen}"`

const pgbench = (dir: string, options: string) => `${bin}/pgbench -h ${dir} -U postgres ${options} postgres 2>&1`

/** Returns the transactions per second of four clients, measured for 8 s. */
async function rate(shell: Shell, dir: string, kind: string): Promise<number> {
  const text = await shell(pgbench(dir, `${kind} --no-vacuum --client 4 --time 8`))
  const [, tps] = /^tps = ([\d.]+)/m.exec(text) ?? []
  if (tps === undefined) throw new Error(`pgbench said: ${text}`)
  return Number(tps)
}

async function inVm(cleanup: AsyncDisposableStack): Promise<Shell> {
  const cloud = cleanup.use(await startBenchCloud('gvisor'))
  const image = await stackImage()
  await cp(image, join(cloud.dir, 'images', basename(image)), { recursive: true })
  const start = `mkdir -p /tmp/pg && chown ${nobody} /tmp/pg && exec setpriv --reuid ${nobody} --clear-groups sh -c '${serve('/tmp/pg', '*')}'`
  const app = { name: 'pg', git_url: '', port: 5432, health_check_path: null, command: ['/bin/sh', '-c', start] }
  await cloud.client.createApp({ body: app })
  const { job_id } = await cloud.client.deployApp({
    app_name: 'pg',
    body: { image: 'oci:stack-tools', vcpus, memory_mib: 2048, disk_mib: 4096 },
  })
  return async script => {
    const body = { command: ['/bin/sh', '-c', script], timeout_seconds: 60 }
    const answer = await cloud.client.execInVm({ app_name: 'pg', job_id: job_id ?? '', body })
    return `${answer.stdout}${answer.stderr}`
  }
}

async function onHost(cleanup: AsyncDisposableStack): Promise<{ readonly shell: Shell; readonly dir: string }> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-pgbench-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  await chown(dir, nobody, nobody)
  const asNobody = ['--reuid', String(nobody), '--clear-groups', 'sh', '-c']
  const server = spawn('setpriv', [...asNobody, serve(dir, '')], { stdio: 'ignore' })
  const ended = once(server, 'exit')
  cleanup.defer(async () => {
    server.kill('SIGINT')
    await ended
  })
  return { shell: script => run('setpriv', [...asNobody, script], { timeoutMs: 60_000 }), dir }
}

async function compare(report: Report): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const guest = await inVm(cleanup)
  const host = await onHost(cleanup)
  const sides = [
    { shell: guest, dir: '/tmp/pg' },
    { shell: host.shell, dir: host.dir },
  ]
  for (const { shell, dir } of sides) {
    const isReady = () =>
      shell(`${bin}/pg_isready -h ${dir}`).then(
        text => text.includes('accepting'),
        () => false,
      )
    await until(isReady, { what: 'PostgreSQL', timeoutMs: 60_000, everyMs: 500 })
    await shell(pgbench(dir, `--initialize --quiet --scale ${scale}`))
  }
  for (const [what, kind, least] of [
    ['reads', '--select-only', 0.25],
    ['transactions', '', 0.5],
  ] as const) {
    const found = await inTurns(rounds, {
      gvisor: () => rate(guest, '/tmp/pg', kind),
      host: () => rate(host.shell, host.dir, kind),
    })
    report.samples(`gVisor, ${what}`, '/s', found.gvisor)
    report.samples(`host, ${what}`, '/s', found.host)
    report.atLeast(`rate of ${what} in gVisor / on the host`, ratioOfRounds(found.gvisor, found.host), least)
  }
}

export const pgbenchInVm: Benchmark = {
  name: 'pgbench',
  goal: 'PostgreSQL in gVisor reads at 25 % and writes at 50 % of the rate of the same program on the host',
  how: "Compares two servers with Debian's PostgreSQL 15 in its default configuration: one in an app of mote up on gVisor, and one directly on the host. The app has as many vCPUs as the host has cores, at most 2. pgbench (scale 10, four clients) runs in the same place as the server and connects over its Unix socket. The two sides alternate in rounds of 8 s.",
  onlyByName: true,
  async unable() {
    return (await missingForVms()) ?? (existsSync(`${bin}/pgbench`) ? undefined : `not installed: postgresql-15`)
  },
  run: compare,
}
