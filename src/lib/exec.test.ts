import { expect, it } from 'vitest'
import { CommandError, run } from './exec.ts'

it("if a program's output exceeds the limit, its end is kept", async () => {
  const script = 'i=0; while [ $i -lt 3000 ]; do echo "line $i ..............................."; i=$((i + 1)); done'
  const kept = await run('sh', ['-c', script], { outputBytes: 1000 })
  expect(kept.length).toBe(1000)
  expect(kept.trim().split('\n').at(-1)).toMatch(/^line 2999 /)
  expect((await run('sh', ['-c', script])).split('\n')).toHaveLength(3001)
  const failed = run('sh', ['-c', `(${script}) >&2; exit 3`], { outputBytes: 1000 })
  await expect(failed).rejects.toBeInstanceOf(CommandError)
})

it('a program that exceeds its time limit is killed', async () => {
  await expect(run('sleep', ['60'], { timeoutMs: 50 })).rejects.toThrow('sleep was killed')
})

it('the time limit of a program that is not installed does not keep the process alive', async () => {
  const script = `import { run } from '${import.meta.resolve('./exec.ts')}'
    await run('mote-no-such-program', [], { timeoutMs: 60_000 }).catch(error => console.log(error.code))`
  const node = ['--input-type=module', '--eval', script]
  expect(await run(process.execPath, node, { timeoutMs: 30_000 })).toBe('ENOENT\n')
})
