/**
 * The command palette: opens apps, their pages, databases and settings, and runs actions that need no further input.
 */
import { useQuery } from '@tanstack/react-query'
import { useRouter } from '@tanstack/react-router'
import { Command } from 'cmdk'
import {
  AppWindow,
  Boxes,
  CreditCard,
  Database,
  FolderOpen,
  HardDrive,
  LayoutTemplate,
  LogOut,
  type LucideIcon,
  Moon,
  Network,
  Plus,
  ScrollText,
  Server,
  Settings,
  Sun,
  UserRound,
  Users,
} from 'lucide-react'
import { useState } from 'react'
import { chooseProject } from '../api/project.ts'
import { queries } from '../api/queries.ts'
import { Dialog } from '../ui/dialog.tsx'
import { leave } from './account-menu.tsx'
import { chooseTheme } from './theme.ts'
import { useProject } from './use-project.ts'

interface Entry {
  readonly group: string
  readonly name: string
  readonly icon: LucideIcon
  readonly run: () => void
  /** Synonyms: a search for one of them finds the entry too, although its name and group do not contain them. */
  readonly words?: string
}

/** Maximum number of results: more would make typing slow in a project with thousands of apps. */
const mostShown = 40

/** Titles of an app's pages; each in lowercase is also the page's path. */
const appPages = [
  ...['Logs', 'Deployments', 'Terminal', 'Files', 'Metrics', 'Scale', 'Jobs', 'Environment', 'Network', 'Volumes'],
  'Settings',
] as const

export default function Palette({ close }: { readonly close: () => void }) {
  const [text, setText] = useState('')
  const entries = useEntries()
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const found = matching(entries, words)
  const groups = Map.groupBy(found, ({ group }) => group)
  return (
    <Dialog title="Find" close={close}>
      <Command label="Find" shouldFilter={false} loop>
        <Command.Input
          autoFocus
          value={text}
          onValueChange={setText}
          placeholder="An app, a page or an action, for example: web logs"
          className="h-9 w-full rounded-md border border-line-strong bg-bg px-3 outline-none focus-visible:border-accent"
        />
        <Command.List label="Results" className="mt-3 max-h-[50dvh] overflow-y-auto">
          {found.length === 0 && (
            // The hint is a disabled option, because a listbox must contain options.
            <Command.Item disabled value="none" className="px-2 py-6 text-center text-muted">
              Nothing has this name.
            </Command.Item>
          )}
          {[...groups].map(([group, members]) => (
            <Command.Group
              key={group}
              heading={group}
              className="mb-2 [&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:py-1 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:text-muted"
            >
              {members.map(({ name, icon: Icon, run }) => (
                <Command.Item
                  key={name}
                  value={`${group} ${name}`}
                  onSelect={() => {
                    close()
                    run()
                  }}
                  className="flex cursor-pointer items-center gap-2.5 rounded-md px-2 py-1.5 data-[selected=true]:bg-hover"
                >
                  <Icon aria-hidden="true" size={15} className="shrink-0 text-muted" />
                  <span className="truncate">{name}</span>
                </Command.Item>
              ))}
            </Command.Group>
          ))}
        </Command.List>
      </Command>
    </Dialog>
  )
}

/** Entries that contain every word; entries whose name begins with the first word come first. */
function matching(entries: readonly Entry[], words: readonly string[]): readonly Entry[] {
  const [first = ''] = words
  const found = entries.filter(({ group, name, words: more = '' }) => {
    const text = `${group} ${name} ${more}`.toLowerCase()
    return words.every(word => text.includes(word))
  })
  const starts = ({ name }: Entry) => name.toLowerCase().startsWith(first)
  return [...found.filter(starts), ...found.filter(entry => !starts(entry))].slice(0, mostShown)
}

function useEntries(): readonly Entry[] {
  const { history } = useRouter()
  const { data: apps = [] } = useQuery(queries.apps())
  const { data: databases = [] } = useQuery(queries.databases())
  const { data: projects = [] } = useQuery(queries.projects())
  const { data: me } = useQuery(queries.me())
  const project = useProject()
  const go = (path: string) => ({ run: () => history.push(path) })
  const slug = project?.tenant_id
  const pages: readonly Entry[] = [
    { group: 'Go to', name: 'Apps', icon: Boxes, ...go('/apps') },
    { group: 'Go to', name: 'Templates', icon: LayoutTemplate, words: 'catalog marketplace', ...go('/templates') },
    { group: 'Go to', name: 'Volumes', icon: HardDrive, words: 'disks storage', ...go('/volumes') },
    { group: 'Go to', name: 'Databases', icon: Database, words: 'postgres', ...go('/databases') },
    { group: 'Go to', name: 'Mesh', icon: Network, words: 'private network hosts', ...go('/mesh') },
    ...(slug
      ? ([
          { group: 'Go to', name: 'Members', icon: Users, words: 'invite', ...go(`/projects/${slug}/members`) },
          { group: 'Go to', name: 'Project settings', icon: Settings, ...go(`/projects/${slug}`) },
        ] as const)
      : []),
    { group: 'Go to', name: 'Billing', icon: CreditCard, words: 'plan budget usage', ...go('/billing') },
    { group: 'Go to', name: 'Audit log', icon: ScrollText, words: 'history activity', ...go('/audit') },
    ...(me?.role === 'Admin' ? [{ group: 'Go to', name: 'Hosts', icon: Server, ...go('/hosts') }] : []),
    { group: 'Account', name: 'Profile', icon: UserRound, ...go('/account') },
    { group: 'Account', name: 'Security', icon: UserRound, words: '2fa password', ...go('/account/security') },
    { group: 'Account', name: 'Access tokens', icon: UserRound, words: 'pat api', ...go('/account/tokens') },
    { group: 'Account', name: 'SSH keys', icon: UserRound, ...go('/account/ssh-keys') },
    { group: 'Account', name: 'Sessions', icon: UserRound, ...go('/account/sessions') },
  ]
  const actions: readonly Entry[] = [
    { group: 'Do', name: 'New app', icon: Plus, words: 'create deploy', ...go('/apps/new') },
    { group: 'Do', name: 'Use the light theme', icon: Sun, run: () => chooseTheme('light') },
    { group: 'Do', name: 'Use the dark theme', icon: Moon, run: () => chooseTheme('dark') },
    { group: 'Do', name: 'Sign out', icon: LogOut, words: 'log out', run: () => void leave() },
  ]
  const ofApps = apps.flatMap(({ name: app }): readonly Entry[] => [
    { group: 'Apps', name: app, icon: AppWindow, ...go(`/apps/${app}`) },
    ...appPages.map(page => ({
      group: 'Pages of apps',
      name: `${app} › ${page}`,
      icon: AppWindow,
      ...go(`/apps/${app}/${page.toLowerCase()}`),
    })),
  ])
  const others: readonly Entry[] = [
    ...databases.map(({ id, name }) => ({ group: 'Databases', name, icon: Database, ...go(`/databases/${id}`) })),
    ...projects
      .filter(({ id }) => id !== project?.id)
      .map(({ name, tenant_id }) => ({
        group: 'Switch to project',
        name,
        icon: FolderOpen,
        words: tenant_id,
        run: () => {
          chooseProject(tenant_id)
          history.push('/apps')
        },
      })),
  ]
  const isNamed = ({ group }: Entry) => group === 'Apps'
  return [...ofApps.filter(isNamed), ...pages, ...actions, ...others, ...ofApps.filter(entry => !isNamed(entry))]
}
