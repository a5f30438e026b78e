import { readFileSync, readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { type HashJob, hashThreads } from './hash-threads.ts'
import { createPasswordHasher } from './passwords.ts'

it('the password hasher verifies only the password that was hashed', async () => {
  const passwords = createPasswordHasher()
  const stored = await passwords.hash('correct staple 7 horses')
  expect(stored).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  expect(await passwords.verify('correct staple 7 horses', stored)).toBe(true)
  expect(await passwords.verify('correct staple 7 horse', stored)).toBe(false)
  expect(await passwords.verify('correct staple 7 horses', undefined)).toBe(false)
})

it('the password hasher computes several hashes concurrently', async () => {
  const passwords = createPasswordHasher({ concurrency: 2 })
  const words = Array.from({ length: 6 }, (_, i) => `a long password ${i}`)
  const stored = await Promise.all(words.map(word => passwords.hash(word)))
  const checks = words.flatMap(word => stored.map(hash => passwords.verify(word, hash)))
  expect((await Promise.all(checks)).map(Number).join('')).toMatch(/^1(0{6}1){5}$/)
})

it('the password hasher does the same work for a missing account as for a wrong password', async () => {
  const jobs: HashJob[] = []
  const threads = hashThreads()
  const passwords = createPasswordHasher({
    compute: job => {
      jobs.push(job)
      return threads(job)
    },
  })
  const stored = await passwords.hash('correct staple 7 horses')
  await passwords.verify('', undefined) // Computes the hash for missing accounts, which is cached.
  const work = async (of: string | undefined) => {
    jobs.length = 0
    expect(await passwords.verify('wrong wrong', of)).toBe(false)
    const form = (text: string) => text.split('$').map((part, at) => (at < 4 ? part : part.length))
    return jobs.map(job => ({ ...job, ...('stored' in job ? { stored: form(job.stored) } : {}) }))
  }
  expect(await work(undefined)).toEqual(await work(stored))
  expect(jobs).toMatchObject([{ kind: 'verify' }])
})

it('the password hasher continues after an invalid hash', async () => {
  const passwords = createPasswordHasher({ concurrency: 1 })
  await expect(passwords.verify('x', 'not a hash')).rejects.toThrow()
  expect(await passwords.verify('x', await passwords.hash('x'))).toBe(true)
})

it('the password hasher refuses a request when its queue is full', async () => {
  const passwords = createPasswordHasher({ concurrency: 1, queue: 2 })
  const tries = await Promise.allSettled(Array.from({ length: 5 }, () => passwords.hash('x')))
  expect(tries.map(({ status }) => status)).toEqual([...Array(3).fill('fulfilled'), ...Array(2).fill('rejected')])
})

it.runIf(process.platform === 'linux')('the password hasher computes in a thread of lower priority', async () => {
  /** Returns the nice value: field 19 of proc_pid_stat(5), counted after the name, which may contain spaces. */
  const niceness = (tid: string) =>
    Number(readFileSync(`/proc/self/task/${tid}/stat`, 'utf8').split(') ')[1]?.split(' ')[16])
  const passwords = createPasswordHasher({ concurrency: 1 })
  await passwords.hash('x')
  const own = niceness(String(process.pid))
  const threads = readdirSync('/proc/self/task').map(niceness)
  expect(threads.filter(nice => nice === own + 10 || nice === 10).length).toBeGreaterThanOrEqual(1)
  expect(niceness(String(process.pid))).toBe(own)
})
