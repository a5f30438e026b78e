import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../lib/exec.ts'

export interface PushOptions {
  readonly branch?: string
  readonly message?: string
  /** Commit ids of submodules by path. The `.gitmodules` in `files` contains their URLs. */
  readonly links?: Readonly<Record<string, string>>
}

/** A working tree for pushing commits. */
export interface WorkTree {
  /** Replaces the whole content of the branch and pushes it. @returns the commit's id */
  push(files: Readonly<Record<string, string | Uint8Array>>, options?: PushOptions): Promise<string>
}

const identity = {
  GIT_AUTHOR_NAME: 'Dev',
  GIT_AUTHOR_EMAIL: 'dev@example.com',
  GIT_COMMITTER_NAME: 'Dev',
  GIT_COMMITTER_EMAIL: 'dev@example.com',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
}

/**
 * Creates a working tree that pushes to the URL.
 * @param header sent with each request, for a host that requires authentication
 */
export async function workTree(dir: string, url: string, header?: string): Promise<WorkTree> {
  await mkdir(dir, { recursive: true })
  const git = (...args: string[]) => run('git', args, { env: identity, cwd: dir })
  await git('init', '--quiet', '--initial-branch=main')
  const options = header === undefined ? [] : ['-c', `http.extraHeader=${header}`]
  return {
    async push(files, { branch = 'main', message = 'change', links = {} } = {}) {
      await git('checkout', '--quiet', '-B', branch)
      await git('rm', '-r', '-q', '--ignore-unmatch', '.')
      for (const [name, text] of Object.entries(files)) {
        await mkdir(dirname(join(dir, name)), { recursive: true })
        await writeFile(join(dir, name), text)
      }
      await git('add', '-A')
      for (const [path, commit] of Object.entries(links))
        await git('update-index', '--add', '--cacheinfo', `160000,${commit},${path}`)
      await git('commit', '--quiet', '--allow-empty', '-m', message)
      await git(...options, 'push', '--quiet', '--force', url, `HEAD:refs/heads/${branch}`)
      return (await git('rev-parse', 'HEAD')).trim()
    },
  }
}
