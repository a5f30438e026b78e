/** Commands for custom domains of an app. */
import type { Command } from 'commander'
import type { Domain } from '../../client/index.ts'
import { appFlag, appOf } from '../folder.ts'
import { listing, status, table } from '../output.ts'
import { noun, said, type Verb } from '../verb.ts'

export const domainCommands = (): Command[] => [
  noun('domains', 'Custom domains of an app', [list, add, verify, remove]),
]

const list: Verb = {
  usage: 'list',
  says: 'List the custom domains of the app with their status',
  aliases: ['ls'],
  options: [appFlag],
  async run(call) {
    const all = await call.client.listDomains({ app_name: await appOf(call) })
    const rows = all.map(one => [one.name, status(one.status), one.certificate.status, one.message ?? ''])
    return said(
      all,
      listing(['NAME', 'STATUS', 'CERTIFICATE', 'MESSAGE'], rows, 'No domains: mote domains add www.example.com'),
    )
  },
}

const add: Verb = {
  usage: 'add <name>',
  says: 'Add a custom domain to the app and print the DNS records to set',
  options: [appFlag],
  example: 'mote domains add www.example.com --app web',
  async run(call) {
    const [name = ''] = call.args
    const domain = await call.client.addDomain({ app_name: await appOf(call), body: { name } })
    return said(domain, `Set these records, then: mote domains verify ${domain.name}\n\n${recordTable(domain)}`)
  },
}

const verify: Verb = {
  usage: 'verify <name>',
  says: 'Check the DNS record of a domain now; exits with 1 if it is missing',
  options: [appFlag],
  async run(call) {
    const [domain = ''] = call.args
    const found = await call.client.verifyDomain({ app_name: await appOf(call), domain })
    if (found.status === 'verified') return said(found, `${found.name} is routed.`)
    return { json: found, text: `${found.message ?? found.status}\n\n${recordTable(found)}`, code: 1 }
  },
}

const remove: Verb = {
  usage: 'delete <name>',
  says: 'Remove a custom domain; its routing stops immediately',
  options: [appFlag],
  async run(call) {
    const [domain = ''] = call.args
    return said(
      await call.client.deleteDomain({ app_name: await appOf(call), domain }),
      `Removed the domain ${domain}.`,
    )
  },
}

const recordTable = ({ records }: Domain) =>
  table(
    ['TYPE', 'NAME', 'VALUE', 'FOR'],
    records.map(({ type, name, value, purpose }) => [type, name, value, purpose]),
  )
