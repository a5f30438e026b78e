/** The PostgreSQL image for tests: built once per machine, by the first test that needs it. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { buildPostgresImage } from '../../src/agent/image/postgres/build.ts'
import { recipeDigest } from '../../src/agent/image/postgres/recipe.ts'

/**
 * Major version of PostgreSQL, by default that of Debian 12. MOTE_TEST_POSTGRES selects another version, whose packages
 * are then downloaded.
 */
export const databaseVersion = Number(process.env['MOTE_TEST_POSTGRES'] ?? 15)

/**
 * Builds the image `oci:postgres:<databaseVersion>` if it is not built yet, and returns the directory with its OCI
 * layout.
 * @throws Error with the reason if the image cannot be built
 */
export async function databaseImages(): Promise<string> {
  const imageDir = await databaseImageDir()
  await buildPostgresImage({ imageDir, version: databaseVersion })
  return imageDir
}

/** Returns the path of the image directory, whether or not the image has been built. */
export const databaseImageDir = async () => join(homedir(), '.cache', 'mote', 'test-images', await recipeDigest())
