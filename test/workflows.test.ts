/** Workflows of GitHub run other people's programs with a token of this repository. */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const files = globSync('.github/workflows/*.yml')

it('there is a workflow that checks changes', () => expect(files).toContain('.github/workflows/check.yml'))

describe.each(files)('%s', file => {
  const text = readFileSync(file, 'utf8')

  it('pins every action by commit, and names its version', () => {
    const actions = [...text.matchAll(/uses: (.+)/g)].map(match => match[1] ?? '')
    expect(actions.filter(action => !/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([])
  })

  it('may read the repository and nothing else', () => {
    const granted = [...text.matchAll(/^ *permissions:(.*)\n((?: +[\w-]+: \w+\n)*)/gm)].map(match =>
      `${match[1]}${match[2]}`.trim(),
    )
    expect(granted).toEqual(['contents: read'])
  })
})
