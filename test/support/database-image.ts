/** The PostgreSQL image of tests: made once on this machine, by whoever needs it first. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { buildPostgresImage } from '../../src/agent/image/postgres/build.ts'
import { recipeDigest } from '../../src/agent/image/postgres/recipe.ts'

/** MOTE_TEST_POSTGRES: another major version than that of the distribution, whose packages are then fetched. */
export const databaseVersion = Number(process.env['MOTE_TEST_POSTGRES'] ?? 15)

/** Directory of OCI layouts that has `oci:postgres:<databaseVersion>`. @throws Error that says why it cannot be made */
export async function databaseImages(): Promise<string> {
  const imageDir = await databaseImageDir()
  await buildPostgresImage({ imageDir, version: databaseVersion })
  return imageDir
}

/** Where it is, when it has been made. */
export const databaseImageDir = async () => join(homedir(), '.cache', 'mote', 'test-images', await recipeDigest())
