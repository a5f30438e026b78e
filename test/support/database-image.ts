/** The PostgreSQL image for tests: built once per machine, by the first test that needs it. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { buildPostgresImage } from '../../src/agent/image/postgres/build.ts'
import { recipeDigest } from '../../src/agent/image/postgres/recipe.ts'

/** MOTE_TEST_POSTGRES selects another major version than the distribution's; its packages are then downloaded. */
export const databaseVersion = Number(process.env['MOTE_TEST_POSTGRES'] ?? 15)

/**
 * Returns a directory of OCI layouts that contains `oci:postgres:<databaseVersion>`. @throws Error with the reason if
 * the image cannot be built
 */
export async function databaseImages(): Promise<string> {
  const imageDir = await databaseImageDir()
  await buildPostgresImage({ imageDir, version: databaseVersion })
  return imageDir
}

/** Path of the image, whether or not it has been built. */
export const databaseImageDir = async () => join(homedir(), '.cache', 'mote', 'test-images', await recipeDigest())
