/**
 * A small git host on loopback: smart HTTP by git's own http-backend (git-http-backend(1)), and a signed webhook after
 * each push.
 */
import { spawn } from 'node:child_process'
import { createHmac, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'

export interface GitHostOptions {
  /** Directory of the repositories: `<dir>/<name>.git`. */
  readonly dir: string
  /** Credentials, as `user:password`, that every request needs. */
  readonly auth?: string
  /** Called after each push that the git host has accepted. */
  readonly onPush?: () => Promise<void>
  readonly onRequest?: (request: { readonly path: string; readonly authorization: string | undefined }) => void
}

export interface GitHost extends AsyncDisposable {
  /** URL of a repository: `http://127.0.0.1:<port>/<name>.git`. */
  urlOf(name: string): string
  /** Creates an empty repository that accepts pushes. Does nothing if it exists. */
  create(name: string): Promise<void>
}

export async function startGitHost(options: GitHostOptions): Promise<GitHost> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://git')
    const { authorization } = request.headers
    options.onRequest?.({ path: pathname, authorization })
    const wanted = options.auth === undefined ? undefined : basic(options.auth)
    if (wanted !== undefined && authorization !== wanted)
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
    else answer(options, request, response)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    urlOf: name => `http://127.0.0.1:${port}/${name}.git`,
    async create(name) {
      const bare = join(options.dir, `${name}.git`)
      await run('git', ['init', '--bare', '--quiet', '--initial-branch=main', bare])
      await run('git', ['--git-dir', bare, 'config', 'http.receivepack', 'true'])
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

export const basic = (auth: string) => `Basic ${Buffer.from(auth).toString('base64')}`

/** Answers one request by running git's http-backend as a CGI program (RFC 3875). */
function answer({ dir, onPush }: GitHostOptions, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? '/', 'http://git')
  const field = (name: string) => String(request.headers[name] ?? '')
  const encoding = field('content-encoding')
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH ?? '',
      GIT_PROJECT_ROOT: dir,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: pathname,
      REQUEST_METHOD: request.method ?? 'GET',
      QUERY_STRING: search.slice(1),
      REMOTE_USER: 'dev',
      CONTENT_TYPE: field('content-type'),
      GIT_PROTOCOL: field('git-protocol'),
      ...(encoding === '' ? {} : { HTTP_CONTENT_ENCODING: encoding }),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(child.stdin)
  // git may exit before it has read the whole input.
  child.stdin.on('error', () => undefined)
  let head: Buffer | undefined = Buffer.alloc(0)
  child.stdout.on('data', (chunk: Buffer) => {
    if (head === undefined) return void response.write(chunk)
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    const fields = head.toString('latin1', 0, end).split('\r\n').map(splitField)
    const status = fields.find(([name]) => name === 'Status')?.[1]
    response.writeHead(
      status ? Number.parseInt(status, 10) : 200,
      Object.fromEntries(fields.filter(([name]) => name !== 'Status')),
    )
    response.write(head.subarray(end + 4))
    head = undefined
  })
  child.on('error', () => response.writeHead(500).end())
  child.on('close', () => {
    response.end()
    if (request.method === 'POST' && pathname.endsWith('/git-receive-pack')) void onPush?.()
  })
}

function splitField(line: string): readonly [string, string] {
  const at = line.indexOf(':')
  return [line.slice(0, at), line.slice(at + 1).trim()]
}

/** Creates the webhook request that a git host sends after a push to the branch, signed as Gitea and GitHub do. */
export async function pushDelivery(dir: string, name: string, branch: string, secret: string) {
  const git = (...args: string[]) => run('git', ['--git-dir', join(dir, `${name}.git`), ...args])
  const after = (await git('rev-parse', `refs/heads/${branch}`)).trim()
  const message = (await git('show', '--no-patch', '--format=%B', after)).trim()
  const body = JSON.stringify({
    ref: `refs/heads/${branch}`,
    after,
    head_commit: { id: after, message },
    repository: { id: 1, name, default_branch: branch },
  })
  const headers = {
    'content-type': 'application/json',
    'x-gitea-event': 'push',
    'x-gitea-delivery': randomUUID(),
    'x-gitea-signature': createHmac('sha256', secret).update(body).digest('hex'),
  }
  return { body, headers, after }
}
