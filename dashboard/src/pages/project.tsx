import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { FolderX } from 'lucide-react'
import { api } from '../api/client.ts'
import { chooseProject } from '../api/project.ts'
import { queries, queryClient } from '../api/queries.ts'
import { useProject } from '../shell/use-project.ts'
import { Button } from '../ui/button.tsx'
import { CopyBox } from '../ui/copy.tsx'
import { Destroy } from '../ui/dialog.tsx'
import { Field, Form } from '../ui/form.tsx'
import { Card, Page } from '../ui/layout.tsx'
import { Loaded, Missing } from '../ui/states.tsx'
import { toast } from '../ui/toast.tsx'
import { Activity } from './activity.tsx'
import { Registries } from './registries.tsx'
import { EnvGroups } from './env-groups.tsx'

export const MissingProject = () => (
  <Card>
    <Missing icon={FolderX} what="project" to="/apps" way="Go to your apps" />
  </Card>
)

export function ProjectSettings() {
  const { slug } = useParams({ from: '/shell/projects/$slug' })
  const projects = useQuery(queries.projects())
  const navigate = useNavigate()
  // The registries and the activity on this page belong to the selected project, which may differ from the project
  // whose settings are shown.
  const current = useProject()
  return (
    <Page title="Project settings">
      <Loaded query={projects}>
        {all => {
          const project = all.find(one => one.tenant_id === slug)
          if (!project) return <MissingProject />
          return (
            <div className="space-y-4">
              <Card title="Project">
                <Form
                  key={project.name}
                  className="max-w-xl"
                  submit="Save"
                  send={async values => {
                    await api.updateProject({ tenant_slug: slug, body: { name: values.text('name') } })
                    await queryClient.invalidateQueries({ queryKey: ['projects'] })
                    toast({ tone: 'good', title: 'Project renamed' })
                  }}
                >
                  <Field label="Name" name="name" required maxLength={100} defaultValue={project.name} />
                  <div>
                    <p className="mb-1 font-medium">Slug</p>
                    <CopyBox text={project.tenant_id} label="slug" />
                    <p className="mt-1 text-xs text-muted">Part of the hostnames of its apps. It cannot be changed.</p>
                  </div>
                </Form>
              </Card>
              {project.id === current?.id && <Registries />}
              {project.id === current?.id && <EnvGroups />}
              {project.id === current?.id && <Activity />}
              <Card
                danger
                title="Delete this project"
                lead="Also deletes its apps, volumes, databases, snapshots and backups."
              >
                <Destroy
                  name={slug}
                  what="project"
                  consequence="Everything in it stops immediately and is deleted permanently, for all members."
                  send={async () => {
                    await api.deleteProject({ tenant_slug: slug })
                    chooseProject(undefined)
                    await queryClient.invalidateQueries({ queryKey: ['projects'] })
                    await navigate({ to: '/apps' })
                  }}
                  trigger={open => (
                    <Button
                      look="danger"
                      onClick={open}
                      reason={all.length === 1 ? 'This is your only project. Create another one first.' : undefined}
                    >
                      Delete {slug}
                    </Button>
                  )}
                />
              </Card>
            </div>
          )
        }}
      </Loaded>
    </Page>
  )
}
