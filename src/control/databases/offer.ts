/** Decides which database versions users may choose: the configured versions whose image at least one host has. */
import { type Sql, statement } from '../../db/db.ts'
import { ApiError } from '../http/errors.ts'
import { type EngineName, engines } from './rules.ts'

const imagesOfHosts = statement<{ images: string[] | null }>(
  'databases.hostImages',
  `SELECT database_images AS images FROM host WHERE removed_at IS NULL AND lost_at IS NULL`,
)

/**
 * Returns the versions that users may choose, the default first. A host that does not report its images (an older
 * agent, a simulated one) counts as having all images.
 * @throws ApiError 503 `no_capacity` when no host has an image
 */
export async function offeredVersions(sql: Sql, engine: EngineName, configured: readonly number[]): Promise<number[]> {
  const hosts = await sql.rows(imagesOfHosts, [])
  const offered = availableVersions(
    engine,
    configured,
    hosts.map(({ images }) => images),
  )
  if (offered.length > 0) return offered
  const build = `mote image build ${engine} --version ${configured[0]}`
  throw new ApiError(
    'no_capacity',
    `No host can run ${engine}: it needs an agent that runs as root and has the image. On such a host: ${build}`,
  )
}

/**
 * Returns the configured versions whose image at least one host has.
 * @param hosts images of each host; null when the host does not report its images
 */
export function availableVersions(
  engine: EngineName,
  configured: readonly number[],
  hosts: readonly (readonly string[] | null)[],
): number[] {
  if (hosts.length === 0) return [...configured]
  const name = engines[engine].image.replace(/^oci:/, '')
  return configured.filter(version => hosts.some(images => images === null || images.includes(`${name}:${version}`)))
}
