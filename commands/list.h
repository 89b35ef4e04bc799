// commands/list.h -- X(NAME): commands/NAME.c, or the file of its subject, defines
// `const struct command command_NAME`; MEASURING stands for the commands of probes. Help and
// completion show them in this order.

// Model.
X(load)
X(unload)
X(new)
X(info)
X(tokenizer)
// Conversation.
X(image)
X(images)
X(system)
X(ask)
X(regen)
X(undo)
X(clear)
X(context)
X(messages)
X(answer)
// Settings.
X(set)
X(get)
X(later)
X(reset)
X(toggle)
X(settings)
X(preset)
X(capa)
X(align)
X(ira)
X(baseline)
// Sessions and scripts.
X(session)
X(save)
X(run)
// Data and training.
X(adapter)
X(scenes)
X(data)
X(train)
X(sweep)
X(eval)
X(calibrate)
X(calibration)
X(jobs)
X(job)
X(wait)
X(plot)
X(collect)
X(report)
// Looking inside.
X(compare)
X(tokenize)
X(detokenize)
X(forward)
X(raw)
X(dump)
// Measuring.
MEASURING // one for each probe (core/lists.h)
X(memory) X(results)
    // The program.
    X(open) X(keys) X(bind) X(screen) X(help) X(devices) X(version) X(quit)
