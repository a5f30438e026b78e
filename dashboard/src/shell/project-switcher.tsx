import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Check, ChevronsUpDown, Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { chooseProject } from '../api/project.ts'
import { queries, queryClient } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field, Form } from '../ui/form.tsx'
import { Menu, MenuItem, MenuLabel, MenuLine } from '../ui/menu.tsx'
import { Skeleton } from '../ui/states.tsx'
import { useProject } from './use-project.ts'

export function ProjectSwitcher() {
  const { data: projects } = useQuery(queries.projects())
  const current = useProject()
  const [isCreating, setCreating] = useState(false)
  const navigate = useNavigate()
  const choose = (slug: string) => {
    chooseProject(slug)
    void navigate({ to: '/apps' })
  }
  if (!projects) return <Skeleton className="h-10" />
  return (
    <>
      <Menu
        align="start"
        trigger={
          <button
            type="button"
            className="flex h-10 w-full items-center gap-2.5 rounded-lg border border-line bg-bg px-2 text-left hover:bg-hover"
          >
            <Letter name={current?.name ?? '?'} />
            <span className="min-w-0 flex-1 truncate font-medium">{current?.name ?? 'No project'}</span>
            <span className="sr-only">, choose another project</span>
            <ChevronsUpDown aria-hidden="true" size={14} className="text-faint" />
          </button>
        }
      >
        <MenuLabel>Projects</MenuLabel>
        {projects?.map(project => (
          <MenuItem key={project.id} onSelect={() => choose(project.tenant_id)}>
            <Letter name={project.name} />
            <span className="min-w-0">
              <span className="block truncate">{project.name}</span>
              <span className="block truncate font-mono text-xs text-muted">{project.tenant_id}</span>
            </span>
            {project.id === current?.id && <Check aria-label="chosen" size={14} className="ml-auto" />}
          </MenuItem>
        ))}
        <MenuLine />
        <MenuItem onSelect={() => setCreating(true)}>
          <Plus aria-hidden="true" size={14} /> New project
        </MenuItem>
      </Menu>
      {isCreating && (
        <Dialog
          title="New project"
          lead="A project contains apps, volumes and databases, and has its own members, plan and private network."
          close={() => setCreating(false)}
        >
          <Form
            submit="Create project"
            secondary={
              <Button look="quiet" onClick={() => setCreating(false)}>
                Cancel
              </Button>
            }
            send={async values => {
              const project = await api.createProject({ body: { name: values.text('name') } })
              await queryClient.invalidateQueries({ queryKey: ['projects'] })
              setCreating(false)
              choose(project.tenant_id)
            }}
          >
            <Field label="Name" name="name" required maxLength={100} autoFocus placeholder="My shop" />
          </Form>
        </Dialog>
      )}
    </>
  )
}

const Letter = ({ name }: { readonly name: string }) => (
  <span
    aria-hidden="true"
    data-letter={(name[0] ?? '?').toUpperCase()}
    className="grid size-6 shrink-0 place-items-center rounded-md bg-accent-soft text-xs font-semibold text-accent-text before:content-[attr(data-letter)]"
  />
)
