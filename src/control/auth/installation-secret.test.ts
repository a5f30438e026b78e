import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts'
import { statement } from '../../db/db.ts'
import { createVault, type Vault } from '../../lib/vault.ts'
import { checkInstallationSecret } from './installation-secret.ts'
import { sealedColumns } from './sealed.ts'

const [old, fresh, other] = ['old-', 'fresh-', 'other-'].map(word => word.repeat(10)) as [string, string, string]
const refusal = /does not belong to this database/

const sql = {
  forget: statement('test.forget', 'DELETE FROM installation_secret'),
  accept: statement('test.accept', 'UPDATE installation_secret SET fingerprint = NULL'),
  seal: statement('test.seal', 'INSERT INTO acme_account (directory, key) VALUES ($1, $2)'),
  unseal: statement('test.unseal', 'DELETE FROM acme_account'),
}

let database: TestDatabase
const check = (...secrets: string[]) => checkInstallationSecret(database.db, createVault(secrets))
const seal = (vault: Vault, directory: string) =>
  database.db.run(sql.seal, [directory, vault.seal('acme.account', 'something')])

beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())
beforeEach(async () => {
  await database.db.run(sql.forget)
  await database.db.run(sql.unseal)
})

describe('a new database', () => {
  test('accepts only the secret of the first start', async () => {
    await check(old)
    await check(old)
    await expect(check(other)).rejects.toThrow(refusal)
  })
  test('accepts only one secret when control planes with different secrets start at the same time', async () => {
    const outcomes = await Promise.allSettled([old, other, old, other].map(secret => check(secret)))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
  })
})

test('a new secret is accepted only in addition to the oldest one, and only if it comes first', async () => {
  await check(old)
  await check(fresh, old)
  await expect(check(fresh)).rejects.toThrow(refusal)
  await expect(check(old, fresh), 'in the wrong order tokens would not be known').rejects.toThrow(refusal)
})

describe('a database from a release that recorded no secret', () => {
  test('accepts only a secret that decrypts stored values', async () => {
    await seal(createVault([old]), 'a')
    await expect(check(other)).rejects.toThrow(refusal)
    await check(old)
    await expect(check(other)).rejects.toThrow(refusal)
  })
  test('accepts its secret even if other rows were encrypted with an earlier secret', async () => {
    await seal(createVault([other]), 'a')
    await seal(createVault([old]), 'b')
    await check(old)
  })
})

test('after an operator has declared the secret lost, the database accepts only the secret with which control starts next', async () => {
  await seal(createVault([old]), 'a')
  await check(old)
  await database.db.run(sql.accept)
  await check(other)
  await expect(check(old)).rejects.toThrow(refusal)
})

test('the names of encryption purposes contain no characters that SQL text must escape', () => {
  for (const { purpose } of sealedColumns) expect(purpose).toMatch(/^[a-z_.-]+$/i)
})
