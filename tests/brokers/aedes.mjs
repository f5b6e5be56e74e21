// aedes on a port of the loopback: node aedes.mjs FOLDER PORT, with the folder that npm installed it into.
import { createServer } from 'node:net'
import { pathToFileURL } from 'node:url'

const [folder, port] = process.argv.slice(2)
const { Aedes } = await import(pathToFileURL(`${folder}/node_modules/aedes/aedes.js`))
const broker = await Aedes.createBroker()
createServer(broker.handle).listen(Number(port), '127.0.0.1')
