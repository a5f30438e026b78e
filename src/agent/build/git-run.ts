/** Runs git isolated from this host's configuration: no hooks, credential helpers, redirects or other transports. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hostCertificates } from '../../lib/child-env.ts'
import { readIfExists } from '../../lib/files.ts'
import type { Worker } from '../worker/worker.ts'
import { type CheckedUrl, curlResolve } from './address.ts'

export type Git = (args: readonly string[]) => Promise<string>

export interface FetchLimits {
  /** Limit on each file that git writes; git is killed when it exceeds the limit. */
  readonly maxBytes: number
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Limit on git's output. A server may send any amount of text (`remote: ...`), and a tree may have any number of names.
 */
const outputBytes = 2 << 20

/**
 * Runs a program whose files may not exceed `maxBytes`: the kernel sends it SIGXFSZ (prlimit(1)). A small repository
 * can unpack to a huge one.
 */
export const limited = (
  worker: Worker,
  program: readonly string[],
  { maxBytes, timeoutMs, signal }: FetchLimits,
  env: Readonly<Record<string, string>> = {},
) =>
  worker.run('prlimit', [`--fsize=${maxBytes}`, '--', ...program], {
    env,
    network: program[0] === 'git',
    outputBytes,
    timeoutMs,
    signal,
  })

/**
 * Returns a function that runs git in one repository.
 * @param dir the repository, relative to the worker's directory
 */
export const gitIn =
  (worker: Worker, dir: string, env: Readonly<Record<string, string>>, limits: FetchLimits): Git =>
  args =>
    limited(worker, ['git', `--git-dir=${worker.path(dir)}`, ...args], limits, env)

/**
 * Copies the host's trusted certificate authorities to where the worker can read them, and returns the environment
 * variables that name the copies. Missing files are skipped.
 */
export async function certificatesFor(worker: Worker): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  await mkdir(join(worker.dir, 'trust'))
  await worker.give('trust')
  for (const [variable, file] of hostCertificates()) {
    const name = `trust/${variable}.pem`
    const text = await readIfExists(file)
    if (text === undefined) continue
    await writeFile(join(worker.dir, name), text)
    await worker.give(name)
    found[variable] = worker.path(name)
  }
  return found
}

/** Returns the environment with git's settings and the password, so that neither arguments nor files contain them. */
export function gitEnvironment(
  url: CheckedUrl,
  auth: { readonly username: string; readonly password: string } | undefined,
): Record<string, string> {
  const settings: Array<readonly [string, string]> = [
    ['protocol.allow', 'never'],
    [`protocol.${url.scheme}.allow`, 'always'],
    ['http.followRedirects', 'false'],
    ['http.curloptResolve', curlResolve(url)],
    ['http.lowSpeedLimit', '1000'],
    ['http.lowSpeedTime', '30'],
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    ['credential.helper', ''],
    ['fetch.recurseSubmodules', 'false'],
    ['transfer.fsckObjects', 'true'],
  ]
  if (auth) {
    const basic = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
    settings.push(['http.extraHeader', `Authorization: Basic ${basic}`])
  }
  const numbered = settings.flatMap(([key, value], n) => [
    [`GIT_CONFIG_KEY_${n}`, key],
    [`GIT_CONFIG_VALUE_${n}`, value],
  ])
  return {
    ...Object.fromEntries(numbered),
    GIT_CONFIG_COUNT: String(settings.length),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_OPTIONAL_LOCKS: '0',
    HOME: '/nonexistent',
  }
}
