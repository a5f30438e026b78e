import { useQuery } from '@tanstack/react-query'
import { Link, type LinkProps } from '@tanstack/react-router'
import {
  Boxes,
  CreditCard,
  Database,
  HardDrive,
  LayoutTemplate,
  type LucideIcon,
  Network,
  ScrollText,
  Server,
  Settings,
  Users,
} from 'lucide-react'
import { queries } from '../api/queries.ts'
import { ProjectSwitcher } from './project-switcher.tsx'
import { useProject } from './use-project.ts'

export function Sidebar() {
  const me = useQuery(queries.me())
  const project = useProject()
  const slug = project?.tenant_id
  return (
    <div className="flex h-full flex-col gap-4 overflow-y-auto p-3">
      <Link to="/apps" className="flex items-center gap-2 px-2 pt-1 text-base font-semibold tracking-tight">
        <img src="/mark.svg" alt="" width="20" height="20" />
        Mote
      </Link>
      <ProjectSwitcher />
      <nav aria-label="Main" className="space-y-5">
        <Group>
          <Item to="/apps" icon={Boxes} name="Apps" />
          <Item to="/templates" icon={LayoutTemplate} name="Templates" />
          <Item to="/volumes" icon={HardDrive} name="Volumes" />
          <Item to="/databases" icon={Database} name="Databases" />
        </Group>
        <Group title="Project">
          {slug && <Item to="/projects/$slug/members" params={{ slug }} icon={Users} name="Members" />}
          <Item to="/billing" icon={CreditCard} name="Billing" />
          <Item to="/audit" icon={ScrollText} name="Audit log" />
          <Item to="/mesh" icon={Network} name="Mesh" />
          {slug && <Item to="/projects/$slug" params={{ slug }} icon={Settings} name="Settings" exact />}
        </Group>
        {me.data?.role === 'Admin' && (
          <Group title="Installation">
            <Item to="/hosts" icon={Server} name="Hosts" />
          </Group>
        )}
      </nav>
      <p className="mt-auto px-2 text-xs text-faint">
        <a href="/v1/docs" className="hover:text-text hover:underline">
          API reference
        </a>
      </p>
    </div>
  )
}

function Group({ title, children }: { readonly title?: string; readonly children: React.ReactNode }) {
  return (
    <div>
      {title && <p className="mb-1 px-2 text-xs font-medium text-faint">{title}</p>}
      <ul className="space-y-0.5">{children}</ul>
    </div>
  )
}

function Item({
  icon: Icon,
  name,
  exact = false,
  ...link
}: Pick<LinkProps, 'to' | 'params'> & { readonly icon: LucideIcon; readonly name: string; readonly exact?: boolean }) {
  return (
    <li>
      <Link
        {...link}
        activeOptions={{ exact }}
        className="flex h-8 items-center gap-2.5 rounded-md px-2 font-medium text-muted transition-colors hover:bg-hover hover:text-text aria-[current=page]:bg-hover aria-[current=page]:text-text"
      >
        <Icon aria-hidden="true" size={16} strokeWidth={1.75} />
        {name}
      </Link>
    </li>
  )
}
