/** The frame around every page of a signed-in user. */
import { Outlet, useLocation } from '@tanstack/react-router'
import { FolderPlus, Menu as MenuIcon } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { currentProject } from '../api/project.ts'
import { queries } from '../api/queries.ts'
import { useStore } from '../api/store.ts'
import { Button } from '../ui/button.tsx'
import { Empty, Problem, Rows } from '../ui/states.tsx'
import { AccountMenu } from './account-menu.tsx'
import { useProjectEvents } from './events.ts'
import { NotificationBell } from './bell.tsx'
import { Find } from './find.tsx'
import { Sidebar } from './sidebar.tsx'
import { Trail } from './trail.tsx'
import { useSomeProject } from './use-project.ts'

export function Shell() {
  const project = useStore(currentProject)
  const [isOpen, setOpen] = useState(false)
  const { pathname } = useLocation()
  useSomeProject()
  useProjectEvents(project)
  useEffect(() => setOpen(false), [pathname])
  return (
    <div className="md:grid md:min-h-dvh md:grid-cols-[232px_minmax(0,1fr)]">
      <a
        href="#content"
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-white focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <aside aria-label="Sidebar" className="sticky top-0 hidden h-dvh border-r border-line bg-surface md:block">
        <Sidebar />
      </aside>
      {isOpen && <Drawer close={() => setOpen(false)} />}
      <div className="flex min-w-0 flex-col">
        <div className="sticky top-0 z-30 flex h-12 items-center gap-1 border-b border-line bg-bg/85 px-3 backdrop-blur md:px-8">
          <Button
            look="quiet"
            size="icon"
            className="md:hidden"
            aria-label="Open navigation"
            onClick={() => setOpen(true)}
          >
            <MenuIcon aria-hidden="true" size={18} />
          </Button>
          <Trail />
          <div className="ml-auto flex items-center gap-1">
            <Find />
            <NotificationBell />
            <AccountMenu />
          </div>
        </div>
        <main id="content" tabIndex={-1} className="min-w-0 flex-1 outline-none">
          {project === undefined ? <NoProject /> : <Outlet key={project} />}
        </main>
      </div>
    </div>
  )
}

function NoProject() {
  const projects = useQuery(queries.projects())
  if (projects.error) return <Problem error={projects.error} retry={() => void projects.refetch()} />
  if (projects.data?.length !== 0) return <Rows />
  return (
    <Empty icon={FolderPlus} title="You have no projects">
      Create one with the menu at the top of the navigation, or accept an invitation to one.
    </Empty>
  )
}

function Drawer({ close }: { readonly close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog
      ref={dialog}
      aria-label="Navigation"
      onCancel={close}
      onMouseDown={event => event.target === event.currentTarget && close()}
      className="m-0 h-dvh max-h-none w-72 border-r border-line bg-surface p-0 text-text"
    >
      <Sidebar />
    </dialog>
  )
}
