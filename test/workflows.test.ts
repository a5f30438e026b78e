/** GitHub workflows pin third-party actions and restrict the repository token that these receive. */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const files = globSync('.github/workflows/*.yml')

it('check.yml is among the GitHub workflows', () => expect(files).toContain('.github/workflows/check.yml'))

describe.each(files)('the GitHub workflow %s', file => {
  const text = readFileSync(file, 'utf8')

  it('pins every action by commit, with the version in a comment', () => {
    const actions = [...text.matchAll(/uses: (.+)/g)].map(match => match[1] ?? '')
    expect(actions.filter(action => !/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([])
  })

  it('has only read permission for the repository contents', () => {
    const granted = [...text.matchAll(/^ *permissions:(.*)\n((?: +[\w-]+: \w+\n)*)/gm)].map(match =>
      `${match[1]}${match[2]}`.trim(),
    )
    expect(granted).toEqual(['contents: read'])
  })
})
