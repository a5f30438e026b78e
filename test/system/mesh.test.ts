/**
 * Not repeated on the distribution's PostgreSQL: this file tests hosts and packets, not the database.
 * Two hosts in network namespaces with a WireGuard mesh between them. Apps on both hosts reach each other by name, the
 * link is cut, and a VM moves through the tunnel while a client holds a connection to it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { newId } from '../../src/lib/ids.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { viaGateway } from '../support/http.ts'
import { type Installation, startInstallation } from '../support/installation.ts'
import { cable, type NamespacedHost, ownCache, twoHosts, uplink } from '../support/namespaced-host.ts'
import { natsMissing } from '../support/nats.ts'
import { promisedMs, until } from '../support/wait.ts'

const needed = ['qemu-system-x86_64', 'umoci', 'mke2fs', 'nft', 'wg', 'tcpdump']
const missing = (await Promise.all(needed.map(hasProgram))).flatMap((there, at) => (there ? [] : [needed[at]]))
const why =
  process.getuid?.() !== 0
    ? 'needs root'
    : (natsMissing ?? (missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''))
/** A pause of 250 ms, because each command in an emulated guest takes 0.1 s of CPU. */
const patient = { timeoutMs: 90_000, everyMs: 250 }
const gatewayPort = 7080
const size = { memory_mib: 512 }

interface Node {
  readonly name: string
  readonly status: string
}

describe.skipIf(why !== '')(`apps on two hosts of a mesh ${why}`, { timeout: 180_000 }, () => {
  const stack = new AsyncDisposableStack()
  const ids = [newId(), newId()] as const
  const jobs = new Map<string, string>()
  let all: Installation
  let hosts: readonly [NamespacedHost, NamespacedHost]

  const at = (app: string, path = '') => `/v1/apps/${app}/deployments/${jobs.get(app)}${path && `/${path}`}`
  const status = async (app: string) => (await all.admin.get(at(app))).body
  const inGuest = async (app: string, script: string, timeoutMs = 20_000): Promise<string> => {
    const body = { command: ['/bin/sh', '-c', script], timeout_ms: timeoutMs }
    const answer = await all.admin.post(at(app, 'exec'), body)
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
    return String(answer.body.stdout).trim()
  }
  const meshIs = async (wanted: string) => {
    const nodes: Node[] = (await all.admin.get('/v1/networking/mesh')).body.nodes
    return nodes.length === 2 && nodes.every(node => node.status === wanted)
  }
  /** Deploys an app on this host, by cordoning the other. */
  const deploy = async (app: string, hostId: string) => {
    for (const id of ids) await all.admin.post(`/v1/admin/hosts/${id}/${id === hostId ? 'uncordon' : 'cordon'}`)
    await all.admin.post('/v1/apps', { name: app, git_url: '', health_check_path: '/health', drain_timeout: 0 })
    const { status: code, body } = await all.admin.post(`/v1/apps/${app}/deploy`, { image: 'oci:hello', ...size })
    expect(code, JSON.stringify(body)).toBe(200)
    jobs.set(app, body.job_id)
    const runs = async () => (await status(app)).status === 'running'
    await all.until(runs, { ...patient, what: `${app} runs` })
    expect((await status(app)).host_id).toBe(hostId)
  }

  beforeAll(async () => {
    const found = await twoHosts(stack)
    hosts = found.hosts
    all = stack.use(await startInstallation({ hostIds: ids, busHost: found.here }))
    for (const [n, id] of ids.entries()) {
      await writeSampleImage(join(all.dir, id, 'images', 'hello'))
      const cache = await ownCache(join(all.dir, `cache-${n}`))
      const endpoint = `${hosts[n]?.underlay}:51820`
      const settings = ['--hypervisor', 'qemu', '--network', 'tap', '--cache', cache, '--mesh-endpoint', endpoint]
      all.startAgent(id, [...settings, '--host-name', `host-${n}`], hosts[n]?.inside)
    }
    const edge = ['--gateway-port', String(gatewayPort), '--listen', '0.0.0.0']
    all.startGateway(edge, hosts[0].inside)
    const ready = async () => {
      const { body } = await all.admin.get('/v1/admin/hosts')
      return body.length === 2 && JSON.stringify(body).match(/"available":true/g)?.length === 2
    }
    await all.until(ready, { ...patient, what: 'both hosts to offer QEMU' })
    await all.until(() => meshIs('up'), { ...patient, what: 'the mesh to be up' })
    await deploy('web', ids[0])
    await deploy('shop', ids[1])
  }, 240_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  it('a TCP stream from one VM reaches the other by name', async () => {
    await inGuest('shop', inBackground('nc -l -p 9000 -e /bin/busybox wc -c'))
    const send = 'dd if=/dev/zero bs=1024 count=4096 2>/dev/null | nc shop.internal 9000 || true'
    const counted = () => inGuest('web', send)
    expect(await until(counted, { ...patient, what: 'the byte count of the other VM' })).toBe(String(4096 * 1024))
  })

  it('the mesh stream reports a cut cable and its repair within five seconds', async () => {
    const end = new AbortController()
    const events = all.admin.events('/v1/networking/mesh/stream', end.signal)
    const streamShows = async (wanted: string) => {
      for (;;) {
        const { value } = await events.next()
        if (JSON.stringify(value?.data).match(new RegExp(`"status":"${wanted}"`, 'g'))?.length === 2) return
      }
    }
    const { ip } = hosts[0].place
    await streamShows('up')
    await ip('link', 'set', cable, 'down')
    const startedMs = performance.now()
    await streamShows('unreachable')
    expect(performance.now() - startedMs).toBeLessThan(promisedMs(5_000))
    await ip('link', 'set', cable, 'up')
    await streamShows('up')
    end.abort()
    expect(await inGuest('web', ask('shop.internal'))).toContain('ok')
  })

  it('a VM moves through the tunnel without breaking a connection from another VM', async () => {
    const talk = 'i=0; while [ ! -e /tmp/enough ]; do echo $i; i=$((i+1)); sleep 0.1; done | nc shop.internal 9001'
    const lines = async () => Number(await inGuest('shop', 'wc -l </tmp/lines'))
    await inGuest('shop', inBackground('nc -l -p 9001 -e /bin/busybox dd of=/tmp/lines bs=64'))
    await inGuest('web', inBackground(talk))
    await until(async () => (await lines()) > 5, { ...patient, what: 'the connection to open' })

    const before = await sent(hosts[1])
    const strangers = await capture(hosts[1], 'ip and not (udp port 51820)')
    const edge = ask200(hosts[0].address, (await all.admin.get('/v1/apps/shop')).body.hostname)
    const [target] = ids
    await all.admin.post(`/v1/admin/hosts/${target}/uncordon`)
    const startedMs = performance.now()
    const { status: code, body } = await all.admin.post(at('shop', 'migration/start'), {
      target_host: target,
      target_uri: '',
    })
    expect(code, JSON.stringify(body)).toBe(200)
    const migration = async () => (await all.admin.get(at('shop', 'migration/status'))).body
    await all.until(async () => (await migration()).ended_at !== null, { ...patient, what: 'the move to end' })
    expect(await migration()).toMatchObject({ status: 'completed', error: null })
    expect((await status('shop')).host_id).toBe(target)

    const after = await sent(hosts[1])
    const moved = await lines()
    await until(async () => (await lines()) > moved + 5, { ...patient, what: 'more data on the connection' })
    await inGuest('web', 'touch /tmp/enough')
    await until(async () => (await inGuest('shop', 'pidof nc || true')) === '', {
      ...patient,
      what: 'the client to end',
    })
    const count = await lines()
    expect(await inGuest('shop', `seq 0 ${count - 1} | cmp - /tmp/lines && echo same`)).toBe('same')

    const through = after.cable - before.cable
    const beside = after.uplink - before.uplink
    const { failed, asked } = await edge.stop()
    const { downtime_ms: downtimeMs } = await migration()
    const tookMs = performance.now() - startedMs
    console.info(
      `moved ${(through / 2 ** 20).toFixed(0)} MiB through the tunnel in ${tookMs.toFixed(0)} ms, downtime ${downtimeMs} ms, ` +
        `${(beside / 2 ** 10).toFixed(0)} KiB to the bus, ${failed} of ${asked} requests failed`,
    )
    expect(await strangers.stop(), 'packets between the hosts that are not encrypted').toEqual([])
    expect(through).toBeGreaterThan(20 << 20)
    expect(beside).toBeLessThan(5 << 20)
    expect(failed).toBe(0)
  })
})

/**
 * Returns a command that runs the script in the background, in a session of its own: when `exec` ends, it kills all
 * processes left in its session.
 */
const inBackground = (script: string) =>
  `rm -f /tmp/begun; setsid sh -c '>/tmp/begun; ${script}' </dev/null >/dev/null 2>&1 & while [ ! -e /tmp/begun ]; do sleep 0.1; done`

const ask = (name: string) => `printf 'GET /health HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${name} 8080 | tail -n 1 || true`

/** Returns how many bytes the host has sent on the cable to the other host, and on its uplink. */
async function sent({ place }: NamespacedHost) {
  const bytes = async (device: string) => {
    const [link] = JSON.parse(await place.ip('-json', '-s', 'link', 'show', 'dev', device))
    return Number(link.stats64.tx.bytes)
  }
  return { cable: await bytes(cable), uplink: await bytes(uplink) }
}

/** Captures packets on the cable between the hosts. `stop` returns those that match the filter. */
async function capture({ place }: NamespacedHost, filter: string) {
  const options = ['-i', cable, '-n', '-l', '-c', '20', filter]
  const tcpdump = spawn('ip', ['netns', 'exec', place.name, 'tcpdump', ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  let observed = ''
  tcpdump.stderr.on('data', data => (said += data))
  tcpdump.stdout.on('data', data => (observed += data))
  await until(() => said.includes('listening on'), { what: 'tcpdump listens' })
  return {
    async stop() {
      if (tcpdump.exitCode === null) {
        const ended = once(tcpdump, 'exit')
        tcpdump.kill()
        await ended
      }
      return observed.split('\n').filter(Boolean)
    },
  }
}

/** Sends up to fifty requests per second to the host's gateway until `stop`, and counts those without a 200. */
function ask200(address: string, hostname: string) {
  const end = new AbortController()
  const counts = { asked: 0, failed: 0 }
  const asking = (async () => {
    while (!end.signal.aborted) {
      const answered = await viaGateway(gatewayPort, hostname, '/health', address).then(
        ({ status }) => status === 200,
        () => false,
      )
      counts.asked++
      if (!answered) counts.failed++
      // Without a pause, the requests would take more CPU than the move of the emulated VM.
      await pause(20)
    }
  })()
  return {
    async stop() {
      end.abort()
      await asking
      return counts
    },
  }
}
