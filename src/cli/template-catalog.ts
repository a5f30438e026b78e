/** Finds templates: the built-in ones, or those of a catalog on the web. */
import { readdir, readFile } from 'node:fs/promises'
import { get } from 'node:https'
import { isIPv6 } from 'node:net'
import { fileURLToPath } from 'node:url'
import { readTemplate, type Template } from '../compose/template.ts'
import { checkPublicHost } from '../lib/public-host.ts'

const folder = fileURLToPath(new URL('../../templates/', import.meta.url))

/** Reads all templates. @param catalog URL of another catalog; default: the built-in templates */
export async function templates(catalog: string | undefined): Promise<Template[]> {
  if (catalog !== undefined) return readCatalog(await download(catalog))
  const names = (await readdir(folder)).filter(name => name.endsWith('.yaml')).sort()
  return Promise.all(
    names.map(async file => readTemplate(file.slice(0, -'.yaml'.length), await readFile(`${folder}${file}`, 'utf8'))),
  )
}

/** Finds a template by name. @throws Error that lists the existing names */
export async function templateOf(name: string, catalog: string | undefined): Promise<Template> {
  const all = await templates(catalog)
  const found = all.find(one => one.name === name)
  if (found) return found
  throw new Error(`There is no template ${name}. There are: ${all.map(one => one.name).join(', ')}`)
}

const mostTemplates = 500

/** Parses a catalog: `{"templates": {"<name>": "<compose file>"}}`. @throws Error if it is invalid */
export function readCatalog(text: string): Template[] {
  const parsed: unknown = JSON.parse(text)
  const given: unknown = typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, 'templates') : undefined
  if (typeof given !== 'object' || given === null) throw new Error('The catalog has no "templates".')
  const entries = Object.entries(given)
  if (entries.length > mostTemplates) throw new Error(`The catalog exceeds the limit of ${mostTemplates} templates.`)
  return entries.map(([name, compose]) => {
    if (typeof compose !== 'string') throw new Error(`The template ${name} of the catalog is not text.`)
    return readTemplate(name, compose)
  })
}

const mostBytes = 1 << 20
const downloadMs = 20_000

/** Downloads a catalog over https from a public address. @throws Error for any other URL, and for redirects */
export async function download(url: string, check: typeof checkPublicHost = checkPublicHost): Promise<string> {
  const parsed = URL.parse(url)
  if (parsed?.protocol !== 'https:' || parsed.username !== '' || parsed.password !== '')
    throw new Error('A catalog must be an https URL without a user.')
  const [address = ''] = await check(parsed.hostname)
  const signal = AbortSignal.timeout(downloadMs)
  return new Promise((resolve, reject) => {
    const request = get(parsed, {
      signal,
      // Connect to the checked address: a second DNS lookup could return a private one.
      lookup: (_host, options, callback) => {
        const family = isIPv6(address) ? 6 : 4
        if (options.all) callback(null, [{ address, family }])
        else callback(null, address, family)
      },
    })
    request.on('error', reject)
    request.on('response', response => {
      const parts: Buffer[] = []
      let length = 0
      if (response.statusCode !== 200) {
        response.destroy()
        return reject(
          new Error(`The catalog's server responded with status ${response.statusCode}. Redirects are not followed.`),
        )
      }
      response.on('data', (part: Buffer) => {
        length += part.length
        parts.push(part)
        if (length > mostBytes) response.destroy(new Error('The catalog exceeds the limit of 1 MiB.'))
      })
      response.on('error', reject)
      response.on('end', () => resolve(Buffer.concat(parts).toString()))
    })
  })
}
