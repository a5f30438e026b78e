/** A real nats-server with JetStream for one test file, with a random port and its own data directory. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startReaper } from './reaper.ts'
import { until } from './wait.ts'
import { freePort } from './free-port.ts'

export interface NatsServer extends AsyncDisposable {
  readonly url: string
  /** Kills the server without warning and restarts it on the same port with the same data. */
  restart(whileDown?: () => Promise<unknown>): Promise<void>
  /** Deletes the server's data on disk; only allowed while the server is down during `restart`. */
  forget(): Promise<void>
  stop(): Promise<void>
}

export interface NatsServerOptions {
  /** Lines added to the configuration, such as an `authorization` block. */
  readonly config?: string
  /** Address on which the server listens; default: loopback. */
  readonly host?: string
  /** Whether JetStream is enabled; default: true. */
  readonly jetStream?: boolean
}

/** Why tests that need nats-server are skipped; undefined if they can run. */
export const natsMissing: string | undefined = hasServer()
  ? undefined
  : 'nats-server is not installed: apt-get install nats-server'

function hasServer(): boolean {
  return spawnSync('nats-server', ['--version'], { stdio: 'ignore' }).status === 0
}

export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const reaper = startReaper()
  const directory = await mkdtemp(join(tmpdir(), 'mote-nats-'))
  reaper.removeAtEnd(directory)
  const port = await freePort()
  const configFile = join(directory, 'nats.conf')
  const lines = [
    `host: ${options.host ?? '127.0.0.1'}`,
    `port: ${port}`,
    options.jetStream === false ? '' : `jetstream { store_dir: ${JSON.stringify(directory)} }`,
    options.config ?? '',
  ]
  await writeFile(configFile, lines.join('\n'))
  const start = async () => {
    const child = spawn('nats-server', ['--config', configFile, '--log', join(directory, 'server.log')], {
      stdio: 'ignore',
    })
    reaper.killAtEnd(child.pid ?? 0)
    await until(() => answers(port, options.host), { what: `nats-server on port ${port}` })
    return child
  }
  const kill = async (running: Awaited<ReturnType<typeof start>>) => {
    const ended = once(running, 'exit')
    running.kill('SIGKILL')
    await ended
    reaper.forget(running.pid ?? 0)
  }
  let child = await start()
  const stop = async () => {
    await kill(child)
    await reaper.finish()
    await rm(directory, { recursive: true, force: true })
  }
  return {
    url: `nats://${options.host ?? '127.0.0.1'}:${port}`,
    async restart(whileDown) {
      await kill(child)
      await whileDown?.()
      child = await start()
    },
    forget: () => rm(join(directory, 'jetstream'), { recursive: true, force: true }),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function answers(port: number, host = '127.0.0.1'): Promise<boolean> {
  const socket = connect(port, host)
  try {
    const [hello] = await once(socket, 'data')
    return String(hello).startsWith('INFO')
  } finally {
    socket.destroy()
  }
}
