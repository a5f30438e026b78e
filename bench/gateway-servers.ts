/** The servers that `bench/gateway.ts` compares, each in its own process on one core. */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { until } from '../test/support/wait.ts'
import { haproxyConfig } from '../src/gateway/publish/haproxy-config.ts'

export interface BenchServer {
  readonly name: string
  readonly port: number
  /** Returns the CPU time that all processes of the server have used so far, in milliseconds. */
  cpuMs(): number
  stop(): Promise<void>
}

/** A clock tick (USER_HZ) is 10 ms on every Linux. */
const tickMs = 10

function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  const own = (Number(fields[11]) + Number(fields[12])) * tickMs
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
  return children.reduce((sum, child) => sum + cpuOf(Number(child)), own)
}

const answers = (port: number) =>
  new Promise<boolean>(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

async function started(name: string, port: number, command: readonly string[], core: number): Promise<BenchServer> {
  const child: ChildProcess = spawn('taskset', ['-c', String(core), ...command], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await until(async () => child.exitCode !== null || (await answers(port)), {
    timeoutMs: 15_000,
    what: `${name} listens`,
  })
  if (child.pid === undefined || child.exitCode !== null) throw new Error(`${name} did not start`)
  const { pid } = child
  return {
    name,
    port,
    cpuMs: () => cpuOf(pid),
    async stop() {
      if (child.exitCode !== null) return
      const gone = new Promise(resolve => child.once('exit', resolve))
      child.kill('SIGTERM')
      await gone
    },
  }
}

const nginxConfig = (
  dir: string,
  http: string,
) => `daemon off; worker_processes 1; pid ${dir}/pid; error_log ${dir}/error.log crit;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000; client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy;
fastcgi_temp_path ${dir}/f; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s; ${http} }
`

/** Starts the app to which all servers forward requests: an nginx, so that it is not the bottleneck. */
export async function startUpstream(dir: string, port: number, core: number): Promise<BenchServer> {
  const own = join(dir, 'upstream')
  await mkdir(own)
  const server = `server { listen 127.0.0.1:${port}; location / { default_type text/plain; return 200 "hello, world"; } }`
  await writeFile(join(own, 'conf'), nginxConfig(own, server))
  return started('upstream', port, ['nginx', '-c', join(own, 'conf'), '-e', join(own, 'error.log')], core)
}

export async function startNginx(dir: string, port: number, upstream: number, core: number): Promise<BenchServer> {
  const own = join(dir, 'nginx')
  await mkdir(own)
  const forward =
    'proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto http'
  const server = `upstream app { server 127.0.0.1:${upstream}; keepalive 128; keepalive_requests 1000000; }
server { listen 127.0.0.1:${port}; location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; ${forward}; } }`
  await writeFile(join(own, 'conf'), nginxConfig(own, server))
  return started('nginx', port, ['nginx', '-c', join(own, 'conf'), '-e', join(own, 'error.log')], core)
}

/** Starts a HAProxy that is configured by hand, with a single backend and server. */
export async function startPlainHaproxy(
  dir: string,
  port: number,
  upstream: number,
  core: number,
): Promise<BenchServer> {
  const file = join(dir, 'plain.cfg')
  const lines = [
    'global',
    '  nbthread 1',
    'defaults',
    '  mode http',
    '  timeout connect 2s',
    '  timeout client 30s',
    '  timeout server 30s',
  ]
  lines.push(
    '  option forwardfor',
    '  http-reuse safe',
    'frontend f',
    `  bind 127.0.0.1:${port}`,
    '  default_backend b',
    'backend b',
  )
  await writeFile(file, `${[...lines, `  server s 127.0.0.1:${upstream}`].join('\n')}\n`)
  return started('haproxy', port, ['haproxy', '-db', '-f', file], core)
}

/**
 * Starts a HAProxy with the gateway's configuration: 200 backends and a map of hostnames, which `startPublisher`
 * fills.
 */
export async function startOurHaproxy(dir: string, port: number, gateway: number, core: number): Promise<BenchServer> {
  const shape = haproxyShape(dir)
  const file = join(dir, 'ours.cfg')
  await writeFile(shape.mapFile, '')
  const config = haproxyConfig(shape, { host: '127.0.0.1', port: gateway }, `127.0.0.1:${port}`)
  await writeFile(file, config.replace('global\n', 'global\n  nbthread 1\n'))
  return started('haproxy, our routes', port, ['haproxy', '-db', '-f', file], core)
}

export const haproxyShape = (dir: string) => ({
  backends: 200,
  servers: 16,
  socket: join(dir, 'ours.sock'),
  mapFile: join(dir, 'ours.map'),
})

/** Starts the gateway. @param profile directory in which Node stores a CPU profile (--cpu-prof); empty: no profile */
export function startGatewayProcess(
  port: number,
  upstream: number,
  core: number,
  profile: string,
): Promise<BenchServer> {
  const flags = profile === '' ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  return started('gateway', port, [process.execPath, ...flags, child('gateway'), String(port), String(upstream)], core)
}

/** Starts a gateway that configures the HAProxy of `startOurHaproxy`. This gateway is not measured. */
export function startPublisher(dir: string, port: number, upstream: number, core: number): Promise<BenchServer> {
  const command = [process.execPath, child('gateway'), String(port), String(upstream), dir]
  return started('publisher', port, command, core)
}

/** Starts a bare Node proxy, as the upper bound for a proxy in Node. */
export function startNodeProxy(
  client: 'undici' | 'http',
  port: number,
  upstream: number,
  core: number,
): Promise<BenchServer> {
  const command = [process.execPath, child('node-proxy'), String(port), String(upstream), client]
  return started(`bare node, ${client}`, port, command, core)
}

const child = (name: string) => join(import.meta.dirname, `${name}-child.ts`)
