import { join } from 'node:path'
import { abortable } from '../../../lib/abortable.ts'
import { ImageError } from '../../base/image-error.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { ownVersions } from '../engines.ts'
import { tagsOf } from '../write-layout.ts'
import { buildPostgresImage } from './build.ts'

/**
 * Builds the image of a PostgreSQL version when a database on the host needs it for the first time, if the distribution
 * has this version. Other versions need packages of another distribution release, so an operator has to build them:
 * `mote image build postgres`.
 * @throws ImageError `image_unusable` if the build fails
 */
export async function ensurePostgresImage(
  imageDir: string,
  version: string,
  { say, time, signal }: PrepareContext,
): Promise<void> {
  const layoutDir = join(imageDir, 'postgres')
  if ((await tagsOf(layoutDir)).includes(version) || process.getuid?.() !== 0) return
  if (!(await ownVersions()).includes(version)) return
  say(
    `making the image of PostgreSQL ${version} from distribution packages, once on this host; this takes about a minute`,
  )
  const making = buildPostgresImage({ imageDir, version: Number(version), say })
  await time('image', () => abortable(making, signal)).catch((cause: unknown) => {
    if (signal.aborted) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    const hint = `to try on the host: mote image build postgres --version ${version}`
    throw new ImageError('image_unusable', `the image of PostgreSQL ${version} could not be made: ${reason}; ${hint}`, {
      cause,
    })
  })
}
