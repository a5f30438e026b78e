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
