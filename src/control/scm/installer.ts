/**
 * Verifies that the user in the browser controls an installation. Installation ids are small, guessable numbers, so
 * the source host must confirm who installed the integration: with "Request user authorization (OAuth) during
 * installation" it redirects the browser back with a `code`, which only the integration can exchange for a token of
 * that user.
 */
import type { Octokit } from '@octokit/core'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { statusOf } from '../http/guard.ts'

const perPage = 100
const mostPages = 10

const Installations = Type.Object({ installations: Type.Array(Type.Object({ id: Type.Integer() })) })
const Repositories = Type.Object({ total_count: Type.Integer() })

/**
 * Returns whether the source host lists the installation for this user.
 * @param person client authenticated as that user
 */
export async function listsInstallation(person: Octokit, installationId: number): Promise<boolean> {
  for (let page = 1; page <= mostPages; page++) {
    const { data } = await person.request('GET /user/installations', { per_page: perPage, page })
    const { installations } = Value.Parse(Installations, data)
    if (installations.some(({ id }) => id === installationId)) return true
    if (installations.length < perPage) return false
  }
  return false
}

/**
 * Returns whether the user can read every repository that the installation can read. `GET /user/installations`
 * includes installations in which the user collaborates on a single repository; a project must not read more than the
 * user who binds the installation to it.
 */
export async function readsAllOf(person: Octokit, installation: Octokit, installationId: number): Promise<boolean> {
  const count = (data: unknown) => Value.Parse(Repositories, data).total_count
  const [own, all] = await Promise.all([
    person.request('GET /user/installations/{installation_id}/repositories', {
      installation_id: installationId,
      per_page: 1,
    }),
    installation.request('GET /installation/repositories', { per_page: 1 }),
  ])
  return count(own.data) >= count(all.data)
}

/**
 * Exchanges the code for a token. Undefined if the source host refuses the code because it is invalid, expired or
 * already used.
 */
export async function exchangeCode(exchange: () => Promise<string>): Promise<string | undefined> {
  try {
    return await exchange()
  } catch (cause) {
    const status = statusOf(cause)
    if (status !== undefined && status >= 400 && status < 500 && status !== 429) return undefined
    throw cause
  }
}
