/** Submodules of a commit: their paths, repositories and commits. */
import { submoduleUrl } from './address.ts'
import { BuildFault } from './fault.ts'
import type { Git } from './git-run.ts'

export interface Submodule {
  /** Path in the tree of the parent repository. */
  readonly path: string
  readonly url: string
  readonly commit: string
}

/** Maximum number of a repository's submodules, including nested ones. */
export const mostSubmodules = 20
export const deepestSubmodule = 3

/**
 * Returns the commit's submodules with their absolute addresses.
 * @param repository the address of the parent repository
 * @throws BuildFault for submodules on another host
 */
export async function submodulesOf(git: Git, hash: string, repository: string): Promise<Submodule[]> {
  const listing = await git(['ls-tree', '-r', '-z', hash])
  const links = listing.split('\0').flatMap(line => {
    const [, commit, path] = /^160000 commit ([0-9a-f]{40,64})\t(.+)$/s.exec(line) ?? []
    return commit !== undefined && path !== undefined ? [{ commit, path }] : []
  })
  if (links.length === 0) return []
  const urls = await urlsOf(git, hash)
  return links.map(({ commit, path }) => {
    const said = urls.get(path)
    if (said === undefined) throw new BuildFault(`The submodule ${path} is not in .gitmodules.`)
    const url = submoduleUrl(repository, said)
    if (url === undefined)
      throw new BuildFault(
        `The submodule ${path} is on another host than the repository. Only submodules on the host of the repository are fetched.`,
      )
    return { path, url, commit }
  })
}

/** Returns the URL of each submodule by its path, as written in .gitmodules. */
async function urlsOf(git: Git, hash: string): Promise<Map<string, string>> {
  const text = await git([
    'config',
    '-z',
    '--blob',
    `${hash}:.gitmodules`,
    '--get-regexp',
    '^submodule\\..*\\.(path|url)$',
  ]).catch(() => '')
  const byName = new Map<string, { path?: string; url?: string }>()
  for (const entry of text.split('\0')) {
    const [, name, field, value] = /^submodule\.(.*)\.(path|url)\n(.*)$/s.exec(entry) ?? []
    if (name === undefined || field === undefined) continue
    byName.set(name, { ...byName.get(name), [field]: value })
  }
  return new Map([...byName.values()].flatMap(({ path, url }) => (path && url ? [[path, url] as const] : [])))
}
