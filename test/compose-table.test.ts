import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { composeClasses, composeTable } from '../scripts/compose-table.ts'

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'mote-catalog-'))
  onTestFinished(() => rm(root, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), text)
  }
  return root
}

test('the table for a folder of compose files lists each refused file with line and reason', async () => {
  const root = await folderOf({
    'plain/compose.yaml': 'services:\n  a: { image: i, ports: ["80"] }\n',
    'differs/docker-compose.yml': 'services:\n  a: { image: i, user: root }\n',
    'refused/compose.yml': 'services:\n  a:\n    image: i\n    pid: host\n',
    'wrong/compose.yml': 'services:\n  a: { image: i, imge: i }\n',
  })
  const table = await composeTable(root)
  expect(table).toContain('2 of 4 are planned, 1 of them without a difference.')
  expect(table).toContain('| refused/compose.yml | compose.yml:4 services.a.pid is not supported')
  expect(table).toContain('| wrong/compose.yml | compose.yml:2 services.a.imge is unknown')
  expect(await composeClasses(root)).toContain('1 differs: is ignored: the program runs as the user of the image')
})

test('a Dokploy template is read with the variables, ports and files of its template.toml', async () => {
  const compose = [
    'services:',
    '  a:',
    '    image: i',
    '    env_file: .env',
    '    environment: { HOST: "${HOST:?}" }',
    '    volumes: ["../files/a.conf:/etc/a.conf:ro"]',
  ]
  const template = [
    '[variables]',
    'main = "${domain}"',
    '[config]',
    'domains = [{ serviceName = "a", port = 3000 }]',
    'env = ["HOST=${main}"]',
    'mounts = [{ filePath = "a.conf", content = "a" }]',
  ]
  const root = await folderOf({
    'a/docker-compose.yml': compose.join('\n'),
    'a/template.toml': template.join('\n'),
  })
  expect(await composeTable(root)).toContain('1 of 1 are planned, 1 of them without a difference.')
})

test('a Coolify template is read with generated variables, its port, and undeclared volumes', async () => {
  const compose = [
    '# port: 3000',
    'services:',
    '  a:',
    '    image: i',
    '    command: sh -c "echo $(date)"',
    '    environment: [SERVICE_URL_A_3000, "KEY=${SERVICE_PASSWORD_A:?}"]',
    '    volumes: ["data:/data"]',
    '    healthcheck: { test: [CMD, curl, "http://127.0.0.1:3000/up"] }',
  ]
  const root = await folderOf({ 'a.yaml': compose.join('\n') })
  expect(await composeTable(root)).toContain('1 of 1 are planned, 1 of them without a difference.')
})
